"""Judge and runner on one core while a round is played.

Whoever waits for the other leaves the core to it: it does not halt meanwhile, and nobody has to be woken on another.
What that takes on a virtual machine strays by more than the rounds themselves do (``benchmarks/gpu_noise.py``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def on_one_core(process: int, core: int | None) -> Iterator[None]:
    """Bind a process's first thread to a core, and the calling thread for as long as this lasts.

    The process stays there, and may leave: it would only disturb its own rounds. Where one of the two cannot be bound
    (a container's rules, a process that has ended) the round is played wherever they are.

    Args:
        process: the runner's number.
        core: which; ``None``: wherever they are.
    """
    before = os.sched_getaffinity(0)
    try:
        if core is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(process, {core})
                os.sched_setaffinity(0, {core})
        yield
    finally:
        if core is not None:
            os.sched_setaffinity(0, before)
