"""From paired times to ratios, a score, and a verdict of who is faster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from evaluators.confidence import ratio_interval
from evaluators.evaluation import DuelOutcome, Interval
from evaluators.rounds import PairedTimes
from evaluators.task import Workload

ALPHA = 0.01
"""One minus the coverage of every interval that decides who is faster."""
GLANCE_ALPHA = 0.13
"""One minus the coverage of the interval that lets a program go which is far behind. Five rounds have one, from the
lowest to the highest; all five lie below the median once in 32 times."""
MOST_WAITED = 0.5
"""Where the threads of both programs wait this share of the rounds' time for a core, others are using the machine.
Which thread is put on which core then lasts for many rounds, which an interval over rounds cannot know of."""
DELTA = 0.01
"""A duel whose interval lies within ``1 ± DELTA`` is a draw: the occupant stays."""


def normalised_weights(workloads: Sequence[Workload]) -> dict[str, float]:
    """Each workload's share of the score; they sum to 1."""
    total = sum(w.weight for w in workloads)
    return {w.name: w.weight / total if total else 1 / len(workloads) for w in workloads}


def combined_log_ratios(times: Mapping[str, PairedTimes], weights: Mapping[str, float]) -> list[float]:
    """Round by round, the weighted mean over the workloads of ``log(theirs / ours)``.

    Workloads are measured one after the other, but round *i* of each belongs together: under the hypothesis that the
    programs are equal each term is symmetric about 0, and so is the sum.
    """
    series = {name: times[name].log_ratios() for name in weights}
    rounds = min(len(values) for values in series.values())
    return [math.fsum(weights[name] * series[name][i] for name in weights) for i in range(rounds)]


def call_interval(values_us: Sequence[float], alpha: float = ALPHA) -> Interval | None:
    """The interval of a call's median time, in microseconds."""
    return ratio_interval([math.log(v) for v in values_us], alpha)


def alpha_of(speedup: Interval | None) -> float:
    """One minus the coverage of the intervals that stand beside this speed-up: they come from the same rounds."""
    return GLANCE_ALPHA if speedup is not None and speedup.glance else ALPHA


def relative_half_width(interval: Interval) -> float:
    """Half the interval's width over its estimate."""
    return (interval.high - interval.low) / 2 / interval.estimate


def duel_outcome(interval: Interval | None) -> DuelOutcome | None:
    """What an interval of occupant time / challenger time decides; ``None`` while it decides nothing."""
    if interval is None:
        return None
    if interval.low > 1:
        return DuelOutcome.CHALLENGER
    if interval.high < 1:
        return DuelOutcome.OCCUPANT
    if interval.low >= 1 - DELTA and interval.high <= 1 + DELTA:
        return DuelOutcome.EQUAL
    return None


def crowded(times: Iterable[PairedTimes]) -> float | None:
    """The share of time that both programs waited for a core, where it is too much for a measurement; else ``None``."""
    shares = [share for series in times for share in series.waited]
    share = median(shares) if shares else 0.0
    return share if share > MOST_WAITED else None


def stray(times: Iterable[PairedTimes], half_width: float) -> bool:
    """Whether in one of these series the opponent's own calls strayed so far: then it is the machine that is unsteady.

    A program can see to it that its own times stray, not that those of a program do that runs while it is stopped.

    Args:
        times: what was measured.
        half_width: relative, of the interval of the opponent's median call.
    """
    intervals = [call_interval(series.theirs) for series in times]
    return any(found is not None and relative_half_width(found) > half_width for found in intervals)


def too_short(times: Iterable[PairedTimes]) -> bool:
    """Whether in most rounds of one of these series both programs' calls were too short to be told apart."""
    return any(sum(series.unresolved) > len(series.unresolved) / 2 for series in times)
