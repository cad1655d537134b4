"""Keeping the rest of the machine from taking cores away in the middle of a round, where we may.

Both programs of a pair gain alike. What a candidate can do with it is bounded: it cannot change its own scheduling
(seccomp), every phase has a deadline that the judge keeps from a higher priority, and the kernel leaves 5 % of each
second to everybody else (sched(7), real-time throttling; where that is switched off we do not use real time).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

Priority = Literal["realtime", "raised", "ordinary"]

JUDGE_REALTIME, RUNNER_REALTIME = 2, 1
RAISED_NICE = -15
BUILDER_NICE = 5
_AUTOGROUP = Path("/proc/self/autogroup")
_THROTTLE = Path("/proc/sys/kernel/sched_rt_runtime_us")


def raise_priority() -> Priority:
    """Raise this thread's priority and that of all it will start, in a session of its own; what came of it.

    Real time where root or ``RLIMIT_RTPRIO`` grants it, else a better nice value where root grants that. A task of
    the ordinary class that wakes up waits until the running one's slice of 3 ms is over, whatever their nice values;
    a round is a chain of wake-ups.
    """
    with contextlib.suppress(PermissionError):
        os.setsid()
    if _is_throttled():
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(JUDGE_REALTIME))
            return "realtime"
    try:
        os.setpriority(os.PRIO_PROCESS, 0, RAISED_NICE)
    except PermissionError:
        return "ordinary"
    _raise_session(RAISED_NICE)
    return "raised"


def settle_below_judge() -> None:
    """For the zygote: what it inherited from the judge, one step lower, for itself and the runners it will fork."""
    if os.sched_getscheduler(0) == os.SCHED_RR:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(RUNNER_REALTIME))
    else:
        _raise_session(os.getpriority(os.PRIO_PROCESS, 0))


def lower_priority() -> None:
    """For builders: compile when nobody else wants the core."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, BUILDER_NICE)


def _raise_session(nice: int) -> None:
    """Where the kernel groups tasks by session (sched_autogroup(7)) a nice value only counts within the session."""
    if nice < 0:
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(str(nice))


def _is_throttled() -> bool:
    try:
        return int(_THROTTLE.read_text()) >= 0
    except (OSError, ValueError):
        return False
