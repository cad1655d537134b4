"""The BLAS libraries of this process, looked up at import: runners cannot do it, they have no /proc.

The zygote imports it before it closes itself in, with one thread a library so that forking stays safe; a runner then
raises the number to its task's threads.
"""

from __future__ import annotations

import numpy  # noqa: F401  (its BLAS must be loaded to be found)
from threadpoolctl import ThreadpoolController

LIBRARIES = ThreadpoolController()


def set_threads(count: int) -> None:
    """Let every BLAS library use ``count`` threads."""
    LIBRARIES.limit(limits=count)
