"""How numbers are written for people. Data for programs keeps every digit; this is only for reading."""

from __future__ import annotations

from collections.abc import Mapping

from evaluators.evaluation import Interval, Status
from evolve.types import AddStatus, StopReason

_MINUTE, _HOUR = 60, 3600
_REASONS: Mapping[str, str] = {
    StopReason.CANDIDATES: "the cap on candidates was met",
    StopReason.SECONDS: "the cap on seconds was met",
    StopReason.DEVICE_SECONDS: "the cap on device seconds was met",
    StopReason.DOLLARS: "the cap on dollars was met",
    StopReason.TOKENS: "the cap on tokens was met",
    StopReason.PATIENCE: "no new best for as long as patience allows",
    StopReason.TARGET: "the target was reached",
    StopReason.EXHAUSTED: "the proposers have nothing new to offer",
}
_PLACEMENTS: Mapping[AddStatus, str] = {
    AddStatus.NOT_ADDED: "took no cell of the archive",
    AddStatus.IMPROVE: "took the place of another in its cell of the archive",
    AddStatus.NEW: "took an empty cell of the archive",
}


def reason(text: str) -> str:
    """Why a run ended, in words; what is no :class:`~evolve.types.StopReason` is words already."""
    return _REASONS.get(text, text)


def placement(status: AddStatus | None) -> str:
    """What a program got in the archive; nothing of one that is not placed yet."""
    return "" if status is None else _PLACEMENTS[status]


def ratio(interval: Interval) -> str:
    """A speed-up with its interval, ``1.42x [1.40, 1.44]``, and with its level where that is a glance's."""
    level = f" at {percent(interval.level)}" if interval.glance else ""
    return f"{interval.estimate:.3g}x [{interval.low:.3g}, {interval.high:.3g}]{level}"


def microseconds(value: float) -> str:
    """A time in the unit that keeps it readable, four digits."""
    for limit, divisor, unit in ((1e3, 1, "µs"), (1e6, 1e3, "ms")):
        if value < limit:
            return f"{value / divisor:.4g} {unit}"
    return f"{value / 1e6:.4g} s"


def duration(seconds: float) -> str:
    """A span of time: ``42 s``, ``1:05``, ``2 h 03 min``."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{int(seconds) // _MINUTE}:{int(seconds) % _MINUTE:02d}"
    return f"{int(seconds) // _HOUR} h {int(seconds) % _HOUR // _MINUTE:02d} min"


def failures(verdicts: Mapping[str, int]) -> str:
    """How many failed, by status, the most frequent first: ``6 (build_error 4, wrong_values 2)``."""
    failed = {status: count for status, count in verdicts.items() if status != Status.PASSED and count}
    if not failed:
        return "0"
    named = ", ".join(f"{status} {count}" for status, count in sorted(failed.items(), key=lambda item: -item[1]))
    return f"{sum(failed.values())} ({named})"


def percent(share: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * share:.0f} %"
