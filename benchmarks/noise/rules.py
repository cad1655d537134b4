"""Rules for ending a duel: what each can say of a ratio after some rounds.

Every rule maps the log ratios of the rounds so far to an interval for their middle at level ``1 - ALPHA``, or to
``None`` while it can say nothing. All but :func:`bootstrap` claim to hold whenever one looks.

- :func:`signs` is the judge's own (:mod:`evaluators.confidence`).
- :func:`coins` bets on the same signs, more where the distance is larger: if the programs are equally fast, a round's
  ratio is as likely to be above 1 as below by as much, so capital multiplied by ``1 + tanh(rate * distance)`` is a fair
  game, whatever the noise (after Shafer 2021, and Waudby-Smith and Ramdas 2023; Ville's inequality does the rest).
- :func:`bernstein`: the predictable empirical Bernstein sequence on clipped values (Waudby-Smith and Ramdas 2023,
  theorem 2).
- :func:`mixture`: Robbins' normal mixture with the variance estimated: valid for many rounds, asymptotically.
- :func:`bootstrap`: a percentile bootstrap of the median, for a fixed number of rounds: what one should not look at
  after every round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, log, sqrt

import numpy as np
import numpy.typing as npt

from evaluators.confidence import median_bounds
from evaluators.scoring import ALPHA

Bounds = tuple[float, float]
Rule = Callable[[Sequence[float]], Bounds | None]
CLIP = 0.1
"""Where the Bernstein rule clips log ratios: it needs a range that is known before."""
RESAMPLES = 400
TUNED_FOR = 20
"""Rounds at which the mixture is narrowest."""
RATES = np.geomspace(3.0, 3e3, 7)
"""Of the coin bets: from what finds 10 % in noise of 20 % to what finds 0.1 % in noise of 0.1 %."""
PRECISION = 2e-4
Array = npt.NDArray[np.float64]


def signs(values: Sequence[float]) -> Bounds | None:
    """The judge's."""
    low, _, high = median_bounds(values, ALPHA)
    return None if low == -inf else (low, high)


def coins(values: Sequence[float]) -> Bounds | None:
    """Bets in both directions, each at half the level."""
    array = np.asarray(values)
    low, high = _lower_bound(array), -_lower_bound(-array)
    return None if low == -inf or high == inf else (low, high)


def capital(values: Array) -> float:
    """Logarithm of what a bet of 1 on positive values has become, shared out equally among the rates."""
    gains = len(values) * log(2) - np.logaddexp(0, -2 * np.outer(RATES, values)).sum(axis=1)
    return float(np.logaddexp.reduce(gains) - log(len(RATES)))


def _lower_bound(values: Array) -> float:
    """The largest number that the values are larger than: capital falls as it is raised."""
    threshold = log(2 / ALPHA)
    low, high = float(values.min()) - 20 / RATES[0], float(values.max())
    if capital(values - low) < threshold:
        return -inf
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if capital(values - middle) >= threshold else (low, middle)
    return low


def bernstein(values: Sequence[float]) -> Bounds | None:
    """Means of clipped values, between 0 and 1 as the theorem has them."""
    scaled = (np.clip(values, -CLIP, CLIP) + CLIP) / (2 * CLIP)
    mean, spread, bets, bet_sum, loss = 0.5, 0.25, 0.0, 0.0, 0.0
    total, squares = 0.5, 0.25
    for t, x in enumerate(scaled.tolist(), 1):
        bet = min(sqrt(2 * log(2 / ALPHA) / (spread * t * log(1 + t))), 0.5)
        loss += (x - mean) ** 2 * (-log(1 - bet) - bet)
        bet_sum += bet
        bets += bet * x
        total += x
        mean = total / (t + 1)
        squares += (x - mean) ** 2
        spread = squares / (t + 1)
    middle, half = bets / bet_sum, (log(2 / ALPHA) + loss) / bet_sum
    return (2 * middle - 1 - 2 * half) * CLIP, (2 * middle - 1 + 2 * half) * CLIP


def mixture(values: Sequence[float]) -> Bounds | None:
    """Mean and estimated spread."""
    n = len(values)
    if n < 2:
        return None
    precision = (-2 * log(ALPHA) + log(-2 * log(ALPHA)) + 1) / TUNED_FOR
    grown = n * precision
    half = float(np.std(values, ddof=1)) * sqrt((grown + 1) / (n * grown) * log((grown + 1) / ALPHA**2))
    mean = float(np.mean(values))
    return mean - half, mean + half


def bootstrap(values: Sequence[float]) -> Bounds | None:
    """Medians of values drawn again, the same draws every time."""
    if len(values) < 5:
        return None
    draws = np.random.default_rng(len(values)).integers(0, len(values), (RESAMPLES, len(values)))
    medians = np.median(np.asarray(values)[draws], axis=1)
    low, high = np.quantile(medians, [ALPHA / 2, 1 - ALPHA / 2])
    return float(low), float(high)


RULES: Mapping[str, Rule] = {
    "signs": signs,
    "coins": coins,
    "bernstein": bernstein,
    "mixture": mixture,
    "bootstrap": bootstrap,
}
EVERY_ROUND = frozenset({"bootstrap"})
"""Rules that are looked at after every round from the fifth on, to show what comes of it."""
