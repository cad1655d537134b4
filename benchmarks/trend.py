"""Whether a series rises or falls: the change along a straight line, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, mean


@dataclass(frozen=True)
class Trend:
    """By how much a series changes from its first value to its last, as a share of its mean."""

    low: float
    estimate: float
    high: float

    def verdict(self, most: float) -> str:
        """Whether it stays within ``most`` in either direction, leaves that, or nobody knows."""
        if -most <= self.low and self.high <= most:
            return "within"
        return "beyond" if self.low > most or self.high < -most else "undecided"

    def __str__(self) -> str:
        return f"{100 * self.estimate:+.1f} % ({100 * self.low:+.1f} to {100 * self.high:+.1f} %)"


def trend(values: Sequence[float], level: float = 0.95) -> Trend:
    """Least squares, with Student's interval for the slope.

    Raises:
        ValueError: fewer than three values.
    """
    count = len(values)
    if count < 3:
        raise ValueError("a trend takes three values")
    middle, average = (count - 1) / 2, mean(values)
    spread = sum((i - middle) ** 2 for i in range(count))
    slope = sum((i - middle) * (value - average) for i, value in enumerate(values)) / spread
    rest = sum((value - average - slope * (i - middle)) ** 2 for i, value in enumerate(values))
    half = student(level, count - 2) * sqrt(rest / (count - 2) / spread)
    whole = (count - 1) / average
    return Trend((slope - half) * whole, slope * whole, (slope + half) * whole)


def student(level: float, freedom: int) -> float:
    """The quantile of a two-sided interval: Cornish and Fisher's expansion, to within 1 % from four degrees on."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))
