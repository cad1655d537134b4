"""Keeping the rest of the machine from taking cores away in the middle of a round, where we may."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

RAISED = -15
_AUTOGROUP = Path("/proc/self/autogroup")


def raise_priority() -> bool:
    """Begin a session of this process's own and raise its priority and that of all it will start; whether it worked.

    Only root (``CAP_SYS_NICE``) may.
    """
    with contextlib.suppress(PermissionError):
        os.setsid()
    try:
        os.setpriority(os.PRIO_PROCESS, 0, RAISED)
    except PermissionError:
        return False
    share_priority_with_session()
    return True


def share_priority_with_session() -> None:
    """Give this process's session the priority it inherited.

    Where the kernel groups tasks by session (sched_autogroup(7)), a nice value only counts within the session, and a
    new session starts at 0. A process that began one calls this.
    """
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    if nice < 0:
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(str(nice))


def lower_priority() -> None:
    """For builders: compile when nobody measures."""
    with contextlib.suppress(OSError):
        os.nice(-RAISED + 5)
