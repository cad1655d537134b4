"""Runs a shared object whose entry launches CUDA kernels on a stream."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from evaluators.cuda.driver import Driver
from evaluators.programs.base import Call
from evaluators.programs.cpp import open_entry
from evaluators.programs.device import DevicePlace


class CudaProgram:
    """``extern "C" void ENTRY(pointers, axes, cudaStream_t)``."""

    def __init__(self, payload: Mapping[str, Any], driver: Driver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._entry = open_entry(payload["artifact"], payload["entry"])

    def bind(self, places: Sequence[DevicePlace], scalars: tuple[int, ...]) -> Call:
        """A call over fixed buffers."""
        pointers = [ctypes.c_void_p(p.address) for p in places]
        args = (*pointers, *(ctypes.c_int64(s) for s in scalars), ctypes.c_void_p(self._stream))
        entry = self._entry
        return lambda: entry(*args)

    def allocations(self) -> int | None:
        """Nobody counts what native code takes."""
        return None

    def capture(self, calls: Sequence[Call]) -> Call:
        """The calls as one graph."""
        driver, stream = self._driver, self._stream
        driver.begin_capture(stream)
        try:
            for call in calls:
                call()
        finally:
            graph = driver.end_capture(stream)
        return lambda: driver.launch_graph(graph, stream)


load = CudaProgram
