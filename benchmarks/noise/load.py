"""Other work on the machine: processes that keep the cores busy, and some that keep the memory busy.

python -m benchmarks.noise.load spin|copy    one such process, until its parent ends
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

import numpy as np

COPIED_BYTES = 64 << 20
"""More than a last-level cache holds."""
_PR_SET_PDEATHSIG = 1


@contextmanager
def loaded(busy: int, copying: int) -> Iterator[None]:
    """While it lasts, so many processes compute, and so many copy memory; at ordinary priority."""
    modes = ["spin"] * busy + ["copy"] * copying
    command = [sys.executable, "-m", "benchmarks.noise.load"]
    processes = [subprocess.Popen([*command, mode], stdout=subprocess.PIPE) for mode in modes]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # it has begun
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def main(mode: str) -> None:
    """Work without end."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    print("begun", flush=True)
    if mode == "copy":
        source, target = np.ones(COPIED_BYTES, np.uint8), np.empty(COPIED_BYTES, np.uint8)
        while True:
            target[:] = source
    for _ in count():
        pass


if __name__ == "__main__":
    main(sys.argv[1])
