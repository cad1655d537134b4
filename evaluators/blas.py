"""The BLAS libraries of this process, looked up at import: runners cannot do it, they have no /proc.

The zygote imports it before it closes itself in, with one thread a library so that forking stays safe; a runner then
raises the number to its task's threads. A judge keeps to one: the others look for work on every core for some
30 ms after a product of 10,000 numbers, and whoever is woken for a round waits until a slice of theirs is over.
"""

from __future__ import annotations

import numpy  # noqa: F401  (its BLAS must be loaded to be found)
from threadpoolctl import ThreadpoolController

LIBRARIES = ThreadpoolController()


def set_threads(count: int) -> None:
    """Let every BLAS library use ``count`` threads."""
    LIBRARIES.limit(limits=count)
