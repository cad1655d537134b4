"""A slow comparator in exact arithmetic, written from the rules and not from the code of the judge's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evaluators.compare import Comparison, Limit
from evaluators.dtypes import DTYPES, Array, decode, encode
from evaluators.evaluation import Status

_HUGE = Fraction(10) ** 140
"""Squares of larger errors are no float64 any more."""
_NEAR = 1e-6
"""Nobody is held to a verdict that depends on the last bits of a rms."""


def exact_ulp(scale: float, dtype: str) -> Fraction:
    """The distance of two neighbouring numbers of a type at this magnitude."""
    info, magnitude = DTYPES[dtype], Fraction(abs(scale))
    if magnitude == 0:
        return Fraction(0)
    exponent = math.frexp(abs(scale))[1] - 1
    return Fraction(2) ** (max(exponent, info.min_exponent) - info.precision + 1)


def overflows(value: float, dtype: str) -> bool:
    """Whether a finite number becomes infinite in a type."""
    largest = DTYPES[dtype].largest
    return abs(Fraction(value)) >= Fraction(largest) + exact_ulp(largest, dtype) / 2


def exact_error(got: float, wanted: float, scale: float, dtype: str) -> Fraction | None:
    """Error in ulp of the scale; None where NaN or Inf is misplaced; -1 where only the exact value would do."""
    if math.isnan(got) or math.isnan(wanted):
        # A type without Inf has NaN for what overflows.
        beyond = (
            not DTYPES[dtype].has_inf and not math.isnan(wanted) and (math.isinf(wanted) or overflows(wanted, dtype))
        )
        return Fraction(0) if math.isnan(got) and (math.isnan(wanted) or beyond) else None
    if math.isinf(got):
        same = got == wanted or (math.isfinite(wanted) and overflows(wanted, dtype) and (got > 0) == (wanted > 0))
        return Fraction(0) if same else None
    if math.isinf(wanted):
        return None
    error = abs(Fraction(got) - Fraction(wanted))
    if error == 0:
        return error
    if not math.isfinite(scale) or scale == 0:
        nearest = float(decode(encode(np.array([wanted]), dtype), dtype)[0])
        return Fraction(0) if got == nearest else Fraction(-1)
    return error / exact_ulp(scale, dtype)


@dataclass(frozen=True)
class ExactVerdict:
    """What exact arithmetic makes of an output."""

    misplaced: bool
    """A NaN or Inf stands where none may, or the reverse."""
    beyond: bool
    """An element differs where only the exact value will do."""
    worst: Fraction
    rms: float

    def disagreements(self, result: Comparison, limit: Limit) -> Iterator[str]:
        """Where the judge's comparator says something else, in a few words."""
        if self.misplaced or self.beyond:
            expected = Status.NOT_FINITE if self.misplaced else Status.WRONG_VALUES
            if result.status is not expected:
                yield f"{result.status} instead of {expected}"
            return
        errors = result.errors
        if self.worst < _HUGE:
            if not _close(errors.max_ulp, float(self.worst), 1e-300):
                yield f"worst error {errors.max_ulp} instead of {float(self.worst)}"
            if not _close(errors.rms_ulp, self.rms, 1e-150):
                yield f"rms {errors.rms_ulp} instead of {self.rms}"
        within = self.worst <= Fraction(limit.max_ulp)
        if limit.rms_binds(errors.elements):
            within = within and self.rms <= limit.rms_ulp
            if abs(self.rms - limit.rms_ulp) <= _NEAR * limit.rms_ulp:
                return
        if result.passed != within and abs(float(min(self.worst, _HUGE)) - limit.max_ulp) > _NEAR * limit.max_ulp:
            yield f"{result.status} although the worst error is {float(min(self.worst, _HUGE))}, the rms {self.rms}"


def exact_verdict(actual: Array, oracle: Array, scale: Array, dtype: str) -> ExactVerdict:
    """Compare element by element; ``scale`` broadcasts over the output."""
    got = decode(actual, dtype).astype(np.float64)
    scales = np.broadcast_to(scale, got.shape)
    errors = [
        exact_error(float(g), float(w), float(s), dtype)
        for g, w, s in zip(got.flat, oracle.flat, scales.flat, strict=True)
    ]
    known = [error for error in errors if error is not None and error >= 0]
    squares = sum((min(e, _HUGE) ** 2 for e in known), Fraction(0))
    rms = math.sqrt(squares / max(len(known), 1))
    return ExactVerdict(None in errors, Fraction(-1) in errors, max(known, default=Fraction(0)), rms)


def _close(one: float | None, other: float, least: float) -> bool:
    return one is not None and abs(one - other) <= max(1e-9 * abs(other), least)
