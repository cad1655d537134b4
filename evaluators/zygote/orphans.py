"""Ending what a child left running, where no pid namespace does it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from evaluators.sandbox import identity


def end(user: int | None, known: set[int]) -> None:
    """Kill the descendants of a child that has ended; this process is the subreaper they were handed to.

    Args:
        user: the user that was this child's alone, if it had one.
        known: processes of this one that are somebody else's.
    """
    if user is not None:
        _kill_all_of(user)
    while strays := _children() - known:
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _kill_all_of(user: int) -> None:
    """Kill every process of a user at one blow: no fork escapes it, as one might escape a list that is walked."""
    pid = os.fork()
    if pid == 0:
        try:
            identity.become(user, user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _children() -> set[int]:
    try:
        words = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:  # no /proc, or a kernel without this file
        return set()
    return {int(word) for word in words.split()}
