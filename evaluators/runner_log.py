"""What a runner prints: the end of it is kept, and none of it is believed."""

from __future__ import annotations

import os

LOG_CAP = 16 << 10
DRAINED_CHUNKS = 64
"""Reads of the log at one time: a program that writes as fast as we read must not keep us reading."""


class RunnerLog:
    """The judge's end of a runner's standard output and error."""

    def __init__(self, pipe: int) -> None:
        """Read from a descriptor that belongs to somebody else, who closes it."""
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._end = b""

    def drain(self) -> None:
        """Read what there is, within reason."""
        for _ in range(DRAINED_CHUNKS):
            try:
                chunk = os.read(self._pipe, LOG_CAP)
            except OSError:
                return
            if not chunk:
                return
            self._end = (self._end + chunk)[-LOG_CAP:]

    def text(self) -> str:
        """The end of what was printed."""
        self.drain()
        return self._end.decode(errors="replace")
