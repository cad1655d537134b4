"""The judge's kernels on the host: compiled as plain C++, one thread a block, so that they can be tested anywhere."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from evaluators.cuda.device import KERNELS, MOST_TIMES

SHIM = """
#include <cstddef>
#define __global__
#define __device__
struct Index { unsigned x, y, z; };
static Index blockIdx{0, 0, 0}, threadIdx{0, 0, 0}, blockDim{1, 1, 1}, gridDim{1, 1, 1};
struct float4 { float x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
#define __shfl_down_sync(mask, value, offset) 0ull
template <class T, class U> void atomicAdd(T* where, U value) { *where += value; }
extern "C" void choose_block(unsigned y) { blockIdx.y = y; }
"""


class HostDriver:
    """As :class:`evaluators.cuda.driver.Driver`, with host memory for the device's."""

    def __init__(self, folder: Path) -> None:
        source, library = folder / "kernels.cpp", folder / "kernels.so"
        source.write_text(SHIM + KERNELS.read_text())
        subprocess.run(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        self.library = ctypes.CDLL(str(library))
        self._held: dict[int, Any] = {}

    def allocate(self, size: int) -> int:
        memory = np.zeros(size + 64, np.uint8)
        address = -(-memory.ctypes.data // 64) * 64
        self._held[address] = memory
        return address

    def free(self, address: int) -> None:
        del self._held[address]

    def upload(self, address: int, source: int, size: int) -> None:
        ctypes.memmove(address, source, size)

    def download(self, target: int, address: int, size: int) -> None:
        ctypes.memmove(target, address, size)

    def call(self, name: str, *arguments: Any) -> None:
        kind = {"cuMemsetD8_v2": ctypes.c_uint8, "cuMemsetD32_v2": ctypes.c_uint32}[name]
        address, value, count = (argument.value for argument in arguments)
        (kind * count).from_address(address)[:] = [value] * count

    def module(self, image: bytes) -> None:
        del image

    def function(self, module: None, name: str) -> Any:
        del module
        return getattr(self.library, name)

    def attribute(self, name: str) -> int:
        return {"multiprocessors": 1, "capability_major": 9, "capability_minor": 0}[name]

    def launch(self, function: Any, grid: tuple[int, int], block: int, arguments: list[Any]) -> None:
        del block
        parameters = re.search(rf"void {function.__name__}\((.*?)\)", KERNELS.read_text(), re.DOTALL)
        assert parameters is not None
        assert len(parameters[1].split(",")) == len(arguments), f"{function.__name__}({parameters[1]}): {arguments}"
        assert grid[1] <= MOST_TIMES
        for y in range(grid[1]):
            self.library.choose_block(y)
            function(*arguments)

    def event(self) -> None:
        return None

    def record(self, event: None) -> None:
        del event

    def synchronize(self) -> None:
        return None

    def elapsed_ms(self, *events: None) -> float:
        del events
        return 0.01
