"""How long a turn of a runner took, by the clock and by the kernel's account of its processor time."""

from __future__ import annotations

STOPPING_NS = 25_000
"""Processor time of a core beyond a turn's clock that is not counted: a runner stops within it, 99 times of 100. What
is counted is a system call, for instance, that fetches inputs into the cache for milliseconds after the clock was
read."""


def turn_ns(clock_ns: int, until_reply_ns: int, after_reply_ns: int, cores: int) -> int:
    """Nanoseconds that a turn counts for.

    Args:
        clock_ns: from *go* to the last reply.
        until_reply_ns: processor time since the stop before, up to the look right after the last reply: no core works
            for longer than the clock runs, but without having been let go on.
        after_reply_ns: from that look to the stop. What is worked then counts whole, on however many cores.
        cores: of the task.
    """
    ahead_ns = until_reply_ns // cores - STOPPING_NS
    late_ns = after_reply_ns - STOPPING_NS * cores
    return max(clock_ns, ahead_ns) + max(late_ns, 0)
