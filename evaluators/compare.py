"""Whether an output is right: errors in ulp of the row's scale, against a float64 oracle, beside two limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.dtypes import Array
from evaluators.evaluation import ErrorMeasure, Status
from evaluators.task import DType


@dataclass(frozen=True)
class Limit:
    """The largest error an output may have, in ulp of the row's scale in the output's dtype."""

    max_ulp: float
    """For the worst element."""
    rms_ulp: float
    """For the root mean square over what is compared: catches a uniformly lower precision that the maximum lets pass."""
    elements: int = 1
    """Over how many elements the rms was measured; see :data:`RMS_ELEMENTS`."""


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
        limit: the limits of this output.
        dtype: the output's dtype.
        name: the output's name, for the message.
        rows: the row numbers of ``actual`` in the whole output, for the message.
    """
    ...


def compare_outputs(
    actual: Mapping[str, Array],
    oracle: Mapping[str, Array],
    scale: Mapping[str, Array],
    limits: Mapping[str, Limit],
    dtypes: Mapping[str, DType],
    *,
    rows: Array | None = None,
) -> Comparison:
    """Compare several outputs: the first that fails decides; ``errors`` is of the one nearest to (or furthest over) its limit."""
    ...
