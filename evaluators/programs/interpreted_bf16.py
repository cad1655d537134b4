"""bf16 in Triton's interpreter, which calculates with the bits as if they were integers: here they are fp32 numbers.

They are rounded to bf16 where a program casts or stores; what it calculates between is more precise than on a device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from evaluators.dtypes import decode, encode

_BITS = np.dtype(np.uint16)


def install() -> None:
    """Change the interpreter of this process for good."""
    as_numpy, fits = interpreter._get_np_dtype, interpreter._validate_np_data_size

    def numpy_type(kind: Any) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(np.float32) if _is_bf16(kind) else as_numpy(kind)
        return found

    def has_room(array: Any, kind: Any) -> bool:
        return _is_bf16(kind) or bool(fits(array, kind))

    interpreter._get_np_dtype, interpreter._validate_np_data_size = numpy_type, has_room
    _change_memory()
    _change_casts()


def _change_memory() -> None:
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def masked_load(self: Any, pointers: Any, mask: Any, other: Any, *modifiers: Any) -> Any:
        if pointers.get_element_ty() != tl.bfloat16:
            return load(self, pointers, mask, other, *modifiers)
        instead = np.zeros_like(pointers.data, dtype=_BITS) if other is None else _bits(other)
        return _numbers(interpreter._interpreter.load(pointers.data, mask.data, instead, _BITS))

    def masked_store(self: Any, pointers: Any, value: Any, mask: Any, *modifiers: Any) -> Any:
        if not _is_bf16(value.dtype):
            return store(self, pointers, value, mask, *modifiers)
        return interpreter._interpreter.store(pointers.data, _bits(value), mask.data)

    InterpreterBuilder.create_masked_load = masked_load
    InterpreterBuilder.create_masked_store = masked_store


def _change_casts() -> None:
    cast, to_float, bitcast = (
        getattr(InterpreterBuilder, name) for name in ("cast_impl", "create_fp_to_fp", "create_bitcast")
    )

    def any_cast(self: Any, source: Any, kind: Any) -> Any:
        if _is_bf16(kind):
            return _numbers(_bits(source))
        return cast(self, _as_fp32(source), kind)

    def any_float(self: Any, source: Any, kind: Any, rounding: Any) -> Any:
        return any_cast(self, source, kind) if _is_bf16(kind) else to_float(self, _as_fp32(source), kind, rounding)

    def any_bitcast(self: Any, source: Any, kind: Any) -> Any:
        if _is_bf16(kind):
            return _numbers(source.data.view(_BITS))
        return bitcast(self, TensorHandle(_bits(source), tl.uint16) if _is_bf16(source.dtype) else source, kind)

    InterpreterBuilder.cast_impl = any_cast
    InterpreterBuilder.create_fp_to_fp = any_float
    InterpreterBuilder.create_bitcast = any_bitcast


def _is_bf16(kind: Any) -> bool:
    return bool(not isinstance(kind, tl.pointer_type) and kind.scalar == tl.bfloat16)


def _bits(handle: Any) -> Any:
    return encode(np.ascontiguousarray(handle.data).astype(np.float32), "bf16")


def _numbers(bits: Any) -> Any:
    return TensorHandle(decode(bits, "bf16"), tl.bfloat16)


def _as_fp32(handle: Any) -> Any:
    return TensorHandle(handle.data, tl.float32) if _is_bf16(handle.dtype) else handle
