"""Torch's view of a task's arguments. Only processes that run candidates import this."""

from __future__ import annotations

from typing import Any

import torch

TORCH_DTYPES: dict[str, torch.dtype] = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "bool": torch.bool,
}


class DeviceBytes:
    """A stretch of device memory in the form that torch takes without a copy (CUDA array interface, version 3)."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def device_tensor(address: int, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """A contiguous tensor over device memory of somebody else's."""
    element = TORCH_DTYPES[dtype]
    size = element.itemsize
    for extent in shape:
        size *= extent
    if size == 0:
        return torch.empty(shape, dtype=element, device="cuda")
    return torch.as_tensor(DeviceBytes(address, size), device="cuda").view(element).view(shape)
