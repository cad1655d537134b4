"""Element types: how each is stored in a buffer, and how far apart its neighbouring values are.

NumPy has no bfloat16 and no 8-bit floats: their buffers hold the bits (``uint16``, ``uint8``), which :func:`decode`
turns into numbers and :func:`encode` makes from numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # runners load this module: keep pydantic out of them
    from evaluators.task import DType

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DTypeInfo:
    """What the comparison and the buffers need to know of one element type."""

    storage: np.dtype[Any]
    """NumPy's type of the buffer."""
    precision: int = 0
    """Significant binary digits, the hidden one included; 0 for integers and bools, which compare exactly."""
    min_exponent: int = 0
    """Exponent of the smallest normal value, for instance -126 for fp32."""
    largest: float = 0.0
    """Largest finite value."""
    has_inf: bool = True

    @property
    def exact(self) -> bool:
        """True for integers and bools."""
        return self.precision == 0


def _exact(name: str) -> DTypeInfo:
    return DTypeInfo(np.dtype(name))


DTYPES: MappingProxyType[DType, DTypeInfo] = MappingProxyType(
    {
        "fp64": DTypeInfo(np.dtype("float64"), 53, -1022, float(np.finfo(np.float64).max)),
        "fp32": DTypeInfo(np.dtype("float32"), 24, -126, float(np.finfo(np.float32).max)),
        "fp16": DTypeInfo(np.dtype("float16"), 11, -14, 65504.0),
        "bf16": DTypeInfo(np.dtype("uint16"), 8, -126, float.fromhex("0x1.fep127")),
        "fp8_e4m3": DTypeInfo(np.dtype("uint8"), 4, -6, 448.0, has_inf=False),
        "fp8_e5m2": DTypeInfo(np.dtype("uint8"), 3, -14, 57344.0),
        "i64": _exact("int64"),
        "i32": _exact("int32"),
        "i16": _exact("int16"),
        "i8": _exact("int8"),
        "u8": _exact("uint8"),
        "u16": _exact("uint16"),
        "bool": _exact("bool"),
    }
)


def storage_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy's type of a buffer of ``dtype``."""
    return DTYPES[dtype].storage


def ulp(scale: Float64Array, dtype: DType) -> Float64Array:
    """Distance between neighbouring values of ``dtype`` at magnitude ``scale``, as float64; 0 where ``scale`` is 0.

    Below the smallest normal value the distance stays that of the subnormals. A scale that is NaN or Inf gives NaN.
    """
    info = DTYPES[dtype]
    magnitude = np.abs(np.asarray(scale, dtype=np.float64))
    finite = np.isfinite(magnitude)
    _, exponent = np.frexp(np.where(finite, magnitude, 1.0))
    step = np.ldexp(1.0, np.maximum(exponent - 1, info.min_exponent) - (info.precision - 1))
    return np.where(finite, np.where(magnitude == 0, 0.0, step), np.nan)


def decode(array: Array, dtype: DType) -> Array:
    """The numbers in a buffer. The buffer itself where NumPy knows the type, else float32."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype in ("fp8_e4m3", "fp8_e5m2"):
        return _fp8_values(dtype)[array]
    return array


def encode(values: Array, dtype: DType) -> Array:
    """Numbers rounded to nearest even, as a buffer of ``dtype``. Floats out of range become Inf, or NaN without Inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype not in ("bf16", "fp8_e4m3", "fp8_e5m2"):
            return np.asarray(values).astype(DTYPES[dtype].storage)
        if dtype == "bf16" and getattr(values, "dtype", None) == np.float32:
            return _cut_fp32(values)
        wide = np.asarray(values, dtype=np.float64)
        return _encode_bf16(wide) if dtype == "bf16" else _encode_fp8(wide, dtype)


def _round_to(values: Float64Array, info: DTypeInfo) -> Float64Array:
    """Float64 values rounded to nearest even in the precision of ``info``, subnormals included, range not applied."""
    _, exponent = np.frexp(values)
    shift = np.maximum(exponent - 1, info.min_exponent) - (info.precision - 1)
    rounded: Float64Array = np.ldexp(np.rint(np.ldexp(values, -shift)), shift)
    return np.where(np.isfinite(values), rounded, values)


def _cut_fp32(values: npt.NDArray[np.float32]) -> Array:
    """The upper halves of fp32 patterns, rounded to nearest even in integers: a tenth of the general encoder's time."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def _encode_bf16(values: Float64Array) -> Array:
    rounded = _round_to(values, DTYPES["bf16"])
    bits = rounded.astype(np.float32).view(np.uint32)
    return (bits >> np.uint32(16)).astype(np.uint16)


def _fp8_values(dtype: DType) -> npt.NDArray[np.float32]:
    """The 256 values of an 8-bit float, by bit pattern (OCP 8-bit floating point specification, revision 1.0)."""
    info = DTYPES[dtype]
    fraction_bits = info.precision - 1
    bits = np.arange(256)
    exponent = (bits >> fraction_bits) & ((1 << (7 - fraction_bits)) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    significand = np.where(exponent == 0, fraction, fraction + (1 << fraction_bits))
    power = np.maximum(exponent, 1) - 1 + info.min_exponent - fraction_bits
    magnitude = np.ldexp(significand.astype(np.float64), power)
    special = magnitude > info.largest
    magnitude[special] = np.nan
    if info.has_inf:
        magnitude[special & (fraction == 0)] = np.inf
    values: npt.NDArray[np.float32] = np.where(bits < 128, magnitude, -magnitude).astype(np.float32)
    return values


def _encode_fp8(values: Float64Array, dtype: DType) -> Array:
    info = DTYPES[dtype]
    rounded = np.abs(_round_to(values, info))
    table = _fp8_values(dtype)[:128].astype(np.float64)
    count = int(np.count_nonzero(np.isfinite(table)))
    index = np.searchsorted(table[:count], np.where(np.isfinite(rounded), rounded, 0.0))
    nan_bits = 127
    overflow_bits = count if info.has_inf else nan_bits
    index = np.where(rounded > info.largest, overflow_bits, np.where(np.isnan(values), nan_bits, index))
    return (index | np.where(np.signbit(values), 128, 0)).astype(np.uint8)
