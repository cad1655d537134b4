"""Whether an output is right: errors in ulp of the row's scale, against a float64 oracle, beside two limits.

The worst element has a limit, and so has the root mean square: a program that computes everything in a lower precision
may keep each element under a loose maximum, but not all of them together. The sign of a zero is not compared. A row
whose scale is 0 (every term of it was 0) must be exactly 0. Integers and bools must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluators.dtypes import DTYPES, Array, Float64Array, decode, encode, ulp
from evaluators.evaluation import ErrorMeasure, Status
from evaluators.task import DType

RMS_ELEMENTS = 32
"""The rms of fewer elements swings too much to be held against a limit measured over more."""

_BEYOND = 1e300
"""Stands for an error of any size that is not zero where nothing but zero is allowed; keeps every figure finite."""


@dataclass(frozen=True)
class Limit:
    """The largest error an output may have, in ulp of the row's scale in the output's dtype."""

    max_ulp: float
    """For the worst element."""
    rms_ulp: float
    """For the root mean square over what is compared."""
    elements: int = 1
    """Over how many elements the rms was measured. It binds where at least that many, or 32, are compared."""

    def rms_binds(self, elements: int) -> bool:
        """True where the rms of so many elements may be held against the limit."""
        return elements >= min(self.elements, RMS_ELEMENTS)


EXACT = Limit(0.0, 0.0)
"""For integers and bools."""


@dataclass(frozen=True)
class Comparison:
    """What comparing one or more outputs gave."""

    status: Status
    """``PASSED``, ``WRONG_VALUES`` or ``NOT_FINITE``."""
    errors: ErrorMeasure
    message: str = ""
    """Empty on ``PASSED``; else one line: the worst element's index, got, expected, error, limit."""

    @property
    def passed(self) -> bool:
        """True where the outputs are within their limits."""
        return self.status is Status.PASSED

    @property
    def share_of_limit(self) -> float:
        """The larger of error / limit, over maximum and rms: at most 1 where both are kept."""
        if self.errors.max_ulp is None or self.errors.rms_ulp is None:
            return float("inf")
        pairs = (
            (self.errors.max_ulp, self.errors.max_limit_ulp),
            (self.errors.rms_ulp, self.errors.rms_limit_ulp),
        )
        return max(0.0 if error == 0 else error / limit if limit else float("inf") for error, limit in pairs)


def compare(
    actual: Array,
    oracle: Array,
    scale: Array,
    limit: Limit,
    dtype: DType,
    *,
    name: str = "out",
    rows: Array | None = None,
) -> Comparison:
    """Compare one output, or some of its rows, with the oracle.

    Args:
        actual: the buffer (or those rows of it), in the storage type of ``dtype``.
        oracle: same shape, float64 (or longdouble for fp64 outputs; integers for integers).
        scale: one value a row (first axis), or an array that broadcasts to the output's shape.
        limit: the limits of this output; integers and bools must be equal whatever it says.
        dtype: the output's dtype.
        name: the output's name, for the message.
        rows: the row numbers of ``actual`` in the whole output, for the message.

    Raises:
        ValueError: the shapes differ; shapes are checked before values are.
    """
    if actual.shape != oracle.shape:
        raise ValueError(f"{name} has shape {actual.shape}, the oracle {oracle.shape}")
    subject = _Subject(name, dtype, EXACT if DTYPES[dtype].exact else limit, rows)
    if actual.size == 0:
        return Comparison(Status.PASSED, subject.measure(0.0, 0.0, 0))
    if DTYPES[dtype].exact:
        return _compare_exact(actual, oracle, subject)
    values = decode(actual, dtype)
    step = ulp(np.asarray(_per_row(scale, oracle.ndim), dtype=np.float64), dtype)
    with np.errstate(all="ignore"):
        errors = np.subtract(values, oracle, dtype=np.promote_types(oracle.dtype, np.float64))
        np.abs(errors, out=errors)
        errors /= step
    # One NaN makes the maximum NaN: NaN and Inf on either side, and 0 / 0 where a scale is 0, go the careful way.
    if np.isfinite(errors.max()):
        return _judge(errors, values, oracle, subject)
    return _compare_special(values, oracle, step, subject)


def compare_outputs(
    actual: Mapping[str, Array],
    oracle: Mapping[str, Array],
    scale: Mapping[str, Array],
    limits: Mapping[str, Limit],
    dtypes: Mapping[str, DType],
    *,
    rows: Array | None = None,
) -> Comparison:
    """Compare several outputs. The first that fails decides; where all pass, the one nearest to its limit is reported.

    ``dtypes`` names the outputs, in order. ``limits`` may leave out those of integers and bools.
    """
    nearest: Comparison | None = None
    for name, dtype in dtypes.items():
        limit = limits.get(name, EXACT)
        one = compare(actual[name], oracle[name], scale[name], limit, dtype, name=name, rows=rows)
        if not one.passed:
            return one
        if nearest is None or one.share_of_limit > nearest.share_of_limit:
            nearest = one
    if nearest is None:
        raise ValueError("no outputs to compare")
    return nearest


@dataclass(frozen=True)
class _Subject:
    """What is compared, and beside which limit."""

    name: str
    dtype: DType
    limit: Limit
    rows: Array | None

    def element(self, flat: int, shape: tuple[int, ...]) -> str:
        """An element's name for people."""
        index = [int(i) for i in np.unravel_index(flat, shape)]
        if index and self.rows is not None:
            index[0] = int(self.rows[index[0]])
        return f"{self.name}[{', '.join(map(str, index))}]"

    def measure(self, worst: float | None, rms: float | None, elements: int) -> ErrorMeasure:
        """The errors beside the limits."""
        return ErrorMeasure(
            max_ulp=worst,
            rms_ulp=rms,
            max_limit_ulp=self.limit.max_ulp,
            rms_limit_ulp=self.limit.rms_ulp,
            elements=elements,
        )


def _per_row(scale: Array, ndim: int) -> Array:
    """One value a row becomes a column that broadcasts; anything else broadcasts as it is."""
    return scale.reshape(scale.shape + (1,) * (ndim - 1)) if scale.ndim == 1 and ndim > 1 else scale


def _rms(errors: Array, worst: float) -> float:
    """Root mean square, scaled so that squares neither overflow nor vanish."""
    if worst == 0:
        return 0.0
    flat = errors.reshape(-1)
    if 1e-100 < worst < 1e100:
        return float(np.sqrt(np.dot(flat, flat) / flat.size))
    scaled = flat / worst
    return float(worst * np.sqrt(np.dot(scaled, scaled) / flat.size))


def _judge(errors: Array, values: Array, oracle: Array, subject: _Subject) -> Comparison:
    """The verdict over finite errors."""
    limit = subject.limit
    worst = float(errors.max())
    rms = _rms(errors, worst)
    measure = subject.measure(worst, rms, errors.size)
    if worst <= limit.max_ulp and (rms <= limit.rms_ulp or not limit.rms_binds(errors.size)):
        return Comparison(Status.PASSED, measure)
    flat = int(np.argmax(errors))
    got, expected = float(values.reshape(-1)[flat]), float(oracle.reshape(-1)[flat])
    text = f"{subject.element(flat, errors.shape)}: got {got:.9g}, expected {expected:.9g}, "
    if worst >= _BEYOND:
        text += "where the row's scale is 0 and only 0 is right"
    elif worst > limit.max_ulp:
        text += f"off by {worst:.4g} ulp of the row's scale, limit {limit.max_ulp:.4g}"
    else:
        text += (
            f"off by {worst:.4g} ulp and within the limit {limit.max_ulp:.4g}, but over all {errors.size} elements "
            f"the rms error is {rms:.4g} ulp, limit {limit.rms_ulp:.4g}"
        )
    return Comparison(Status.WRONG_VALUES, measure, text)


def _compare_special(values: Array, oracle: Array, step: Float64Array, subject: _Subject) -> Comparison:
    """The careful path: there are NaN, Inf or zero scales."""
    expected = decode(encode(oracle, subject.dtype), subject.dtype)
    with np.errstate(all="ignore"):
        same = (values == expected) | (np.isnan(values) & np.isnan(expected))
        finite = np.isfinite(values) & np.isfinite(oracle)
    misplaced = ~(same | finite)
    if misplaced.any():
        flat = int(np.argmax(misplaced))
        got, wanted = values.reshape(-1)[flat], expected.reshape(-1)[flat]
        count = int(np.count_nonzero(misplaced))
        text = f"{subject.element(flat, values.shape)}: got {float(got):.9g}, expected {float(wanted):.9g}"
        text += f" ({count} of {values.size} elements are NaN or Inf, or should be)"
        return Comparison(Status.NOT_FINITE, subject.measure(None, None, values.size), text)
    wide = np.promote_types(oracle.dtype, np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(np.subtract(values, oracle, dtype=wide))
        errors = np.where(finite & (difference != 0), difference / step, 0.0)
        # A zero scale divides to Inf, an Inf scale to NaN: in both nothing but the exact value will do.
        errors = np.where(np.isfinite(errors), np.minimum(errors, _BEYOND), np.where(same, 0.0, _BEYOND))
    return _judge(errors, values, oracle, subject)


def _compare_exact(actual: Array, oracle: Array, subject: _Subject) -> Comparison:
    wrong = actual != oracle
    if not wrong.any():
        return Comparison(Status.PASSED, subject.measure(0.0, 0.0, actual.size))
    flat = int(np.argmax(wrong))
    got, expected = actual.reshape(-1)[flat], oracle.reshape(-1)[flat]
    count = int(np.count_nonzero(wrong))
    distances = np.abs(actual[wrong].astype(np.float64) - oracle[wrong].astype(np.float64))
    worst = float(distances.max()) or 1.0
    rms = float(np.sqrt(np.dot(distances, distances) / actual.size))
    text = f"{subject.element(flat, actual.shape)}: got {got}, expected {expected} ({count} of {actual.size} differ)"
    return Comparison(Status.WRONG_VALUES, subject.measure(worst, rms, actual.size), text)
