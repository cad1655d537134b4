"""Cores that do not fall asleep while rounds are timed.

A core of a virtual machine that halts is woken through its host: 50 to 100 us, another time each time, in every round
twice. A process of the lowest class on such a core keeps it from halting, and gives way at once to whatever is to run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

_SPIN = """
import ctypes, os, signal, sys
core, parent = int(sys.argv[1]), int(sys.argv[2])
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: with whoever started it
os.sched_setaffinity(0, {core})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
os.write(1, b"!")
while os.getppid() == parent:
    pass
"""


class AwakeCores:
    """Keeps some cores awake for as long as somebody asks. Start and close it in one thread that lives as long."""

    def __init__(self, cores: Iterable[int]) -> None:
        command = [sys.executable, "-s", "-P", "-S", "-c", _SPIN]
        self._spinners = [
            subprocess.Popen([*command, str(core), str(os.getpid())], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            for core in cores
        ]
        for spinner in self._spinners:
            assert spinner.stdout is not None
            with spinner.stdout as ready:
                ready.read(1)  # from now on it dies with us, also while it is stopped
        self._tell(signal.SIGSTOP)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Awake meanwhile."""
        self._tell(signal.SIGCONT)
        try:
            yield
        finally:
            self._tell(signal.SIGSTOP)

    def close(self) -> None:
        """Let them sleep for good."""
        for spinner in self._spinners:
            spinner.kill()
            spinner.wait()

    def _tell(self, word: signal.Signals) -> None:
        for spinner in self._spinners:
            with suppress(ProcessLookupError):
                spinner.send_signal(word)
