"""An anytime-valid confidence sequence for the median of paired log ratios.

Looking after every round must not cost validity, and a shared machine's noise has heavy tails, so we bet on signs.
For a candidate value ``q`` of the median, the number ``k`` of ``n`` observations at or below ``q`` is Binomial(n, 1/2)
if ``q`` is right. The mixture likelihood ratio with a Beta(1/2, 1/2) prior,
``E(k, n) = B(k + 1/2, n - k + 1/2) / B(1/2, 1/2) / 2**-n``, is then a non-negative martingale of mean 1, so by Ville's
inequality it ever exceeds ``1 / alpha`` with probability at most ``alpha``, whatever the distribution and whenever one
looks. The values of ``q`` not refuted lie between two order statistics that depend on ``n`` and ``alpha`` only.
(Howard and Ramdas 2022, "Sequential estimation of quantiles with applications to A/B testing", give the family.)

Under the null hypothesis that two programs are equally fast, exchangeability holds by construction: both run in one
round, in random order, on the same content.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import exp, inf, lgamma, log, pi

from evaluators.evaluation import Interval


def log_evidence(k: int, n: int) -> float:
    """Logarithm of the mixture likelihood ratio against a fair coin after ``k`` of ``n``."""
    log_beta = lgamma(k + 0.5) + lgamma(n - k + 0.5) - lgamma(n + 1)
    return log_beta - log(pi) + n * log(2)


@cache
def order_statistic(n: int, alpha: float) -> int | None:
    """How many observations may be cut from each end: the interval is ``[x[r], x[n - 1 - r]]`` of the sorted values.

    ``None`` while ``n`` is too small to exclude anything (the interval is unbounded).
    """
    threshold = log(1 / alpha)
    if log_evidence(0, n) < threshold:
        return None
    r = 0
    while r + 1 < n / 2 and log_evidence(r + 1, n) >= threshold:
        r += 1
    return r


@cache
def least_rounds(alpha: float) -> int:
    """The fewest observations after which the interval can be bounded: ``10`` at 1 %."""
    n = 1
    while order_statistic(n, alpha) is None:
        n += 1
    return n


def median_bounds(values: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """``(low, median, high)`` of the values at level ``1 - alpha``, valid at every number of looks.

    The bounds are infinite while there are too few values.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n == 0:
        return -inf, 0.0, inf
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    r = order_statistic(n, alpha)
    if r is None:
        return -inf, middle, inf
    return ordered[r], middle, ordered[n - 1 - r]


def ratio_interval(log_ratios: Sequence[float], alpha: float) -> Interval | None:
    """The interval for a ratio from the logarithms of paired ratios; ``None`` while it is unbounded."""
    low, middle, high = median_bounds(log_ratios, alpha)
    if low == -inf:
        return None
    return Interval(low=exp(low), estimate=exp(middle), high=exp(high), level=1 - alpha)
