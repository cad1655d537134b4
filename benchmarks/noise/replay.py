"""Recorded rounds once more, under any rule: what would have come of the duel, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import comb, exp, log1p

import numpy as np

from benchmarks.noise.rules import EVERY_ROUND, RULES
from evaluators.duel import FIRST_LOOK, LEAST_PAIRS, LOOK_EVERY, MOST_ROUNDS
from evaluators.evaluation import DuelOutcome, Interval
from evaluators.scoring import ALPHA, DELTA, duel_outcome

FIRST_BOOTSTRAP = 5
SYNTHETIC = 300
"""Duels made from recorded rounds, where a share is asked for."""


@dataclass(frozen=True)
class Replayed:
    """The end of one duel."""

    outcome: DuelOutcome
    rounds: int


def replay(name: str, values: Sequence[float], most_rounds: int = MOST_ROUNDS) -> Replayed:
    """What a duel comes to under a rule, as :func:`evaluators.duel.run_duel` goes about it."""
    if name in EVERY_ROUND:
        looks = list(range(FIRST_BOOTSTRAP, most_rounds + 1))
    else:
        looks = list(range(FIRST_LOOK, most_rounds + 1, LOOK_EVERY))
    for blocks, rounds in enumerate(looks, 1):
        bounds = RULES[name](values[:rounds])
        if bounds is None:
            continue
        low, high = map(exp, bounds)
        middle = min(max(exp(float(np.median(values[:rounds]))), low), high)
        outcome = duel_outcome(Interval(low=low, estimate=middle, high=high, level=1 - ALPHA))
        if outcome is DuelOutcome.CHALLENGER and blocks < LEAST_PAIRS:
            continue
        if outcome is not None:
            return Replayed(outcome, rounds)
        if middle < 1 + DELTA and name not in EVERY_ROUND:
            return Replayed(DuelOutcome.UNDECIDED, rounds)
    return Replayed(DuelOutcome.UNDECIDED, looks[-1])


def refuted(name: str, values: Sequence[float]) -> int | None:
    """After how many rounds a rule first says, wrongly, that two equal programs differ; ``None``: never.

    Nothing ends before that: this is about the interval alone.
    """
    first, step = (FIRST_BOOTSTRAP, 1) if name in EVERY_ROUND else (FIRST_LOOK, LOOK_EVERY)
    for rounds in range(first, len(values) + 1, step):
        bounds = RULES[name](values[:rounds])
        if bounds is not None and (bounds[0] > 0 or bounds[1] < 0):
            return rounds
    return None


Series = Sequence[float]
Source = Callable[[np.random.Generator, int], list[float]]


def noise_of(series: Sequence[Series]) -> Source:
    """Rounds drawn from one of the recorded duels at random, as if its two processes were equally fast.

    Each round about the duel's own median, with either sign: what random order makes of equal programs.
    """
    centred = [np.asarray(one) - np.median(one) for one in series]

    def draw(rng: np.random.Generator, rounds: int) -> list[float]:
        values = rng.choice(centred[int(rng.integers(len(centred)))], rounds)
        return [float(value) for value in values * rng.choice([-1.0, 1.0], rounds)]

    return draw


def pairs_of(series: Sequence[Series], lengths: Sequence[int]) -> Source:
    """Duels in which blocks of these lengths come from processes of their own: blocks of different recorded duels.

    Whole blocks are turned around at random, which is what exchanging the two programs would do.
    """
    arrays = [np.asarray(one) for one in series]

    def draw(rng: np.random.Generator, rounds: int) -> list[float]:
        drawn: list[float] = []
        for length in lengths:
            one = arrays[int(rng.integers(len(arrays)))]
            start = int(rng.integers(len(one) - length + 1))
            drawn += (rng.choice([-1.0, 1.0]) * one[start : start + length]).tolist()
        return drawn[:rounds]

    return draw


def wins(name: str, source: Source, gain: float, count: int = SYNTHETIC) -> float:
    """The share of synthetic duels that a program faster by ``gain`` (0.02: 2 %) wins."""
    rng = np.random.default_rng(0)
    won = 0
    for _ in range(count):
        values = [value + log1p(gain) for value in source(rng, MOST_ROUNDS)]
        won += replay(name, values).outcome is DuelOutcome.CHALLENGER
    return won / count


def smallest_gain(name: str, source: Source, share: float = 0.95) -> float:
    """The smallest gain that wins so often, to within a tenth of itself."""
    low, high = 1e-3, 1.0
    while high / low > 1.1:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if wins(name, source, middle) >= share else (middle, high)
    return high


def share_interval(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval for a share."""

    def tail(p: float, ks: range) -> float:
        return sum(comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in ks)

    def solve(ks: range, rising: bool) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            above = tail(middle, ks) > (1 - level) / 2
            low, high = (low, middle) if above == rising else (middle, high)
        return (low + high) / 2

    lower = solve(range(hits, trials + 1), rising=True) if hits else 0.0
    upper = solve(range(hits + 1), rising=False) if hits < trials else 1.0
    return lower, upper


def half_widths(name: str, values: Series) -> Iterator[tuple[int, float]]:
    """Rounds, and half the interval's width after them, relative: at every look at which it is bounded."""
    for rounds in range(FIRST_LOOK, len(values) + 1, LOOK_EVERY):
        bounds = RULES[name](values[:rounds])
        if bounds is not None:
            yield rounds, (exp(bounds[1]) - exp(bounds[0])) / 2
