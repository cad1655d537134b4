"""Judge and runner on one core while a round is played.

Whoever waits for the other leaves the core to it: it does not halt meanwhile, and nobody has to be woken on another.
What that takes on a virtual machine strays by more than the rounds themselves do (``benchmarks/gpu_noise.py``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_CALLER = 0


@contextlib.contextmanager
def on_one_core(process: int, core: int | None) -> Iterator[None]:
    """Bind a process's first thread and the calling one to a core for as long as this lasts.

    The process may leave: it would only disturb its own rounds. Where one of the two cannot be bound (a container's
    rules, a process that has ended) the round is played wherever they are.

    Args:
        process: the runner's number.
        core: which; ``None``: wherever they are.
    """
    if core is None:
        yield
        return
    before: dict[int, set[int]] = {}
    try:
        with contextlib.suppress(OSError):
            for one in (process, _CALLER):
                before[one] = os.sched_getaffinity(one)
                os.sched_setaffinity(one, {core})
        yield
    finally:
        for one, cores in before.items():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(one, cores)
