"""Runs a Python function over torch tensors in device memory: torch and Triton programs alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from evaluators.cuda.driver import Driver
from evaluators.programs.base import Admitted, Call
from evaluators.programs.device import DevicePlace
from evaluators.programs.python import import_entry
from evaluators.programs.tensors import device_tensor
from evaluators.status import Status


class TorchProgram:
    """``def ENTRY(tensors, axes)`` that fills its outputs in place or returns them."""

    def __init__(self, payload: Mapping[str, Any], driver: Driver, stream: int) -> None:
        del driver
        self._stream = torch.cuda.ExternalStream(stream)
        torch.cuda.set_stream(self._stream)
        self._entry = import_entry(payload["source"], payload["entry"])

    def bind(self, places: Sequence[DevicePlace], scalars: tuple[int, ...]) -> Call:
        """A call over fixed buffers; what it returns is copied into the outputs after a check of shape and dtype."""
        tensors = [device_tensor(p.address, p.dtype, p.shape) for p in places]
        outputs = [t for t, p in zip(tensors, places, strict=True) if p.writable]
        entry = self._entry

        def call() -> None:
            returned = entry(*tensors, *scalars)
            if returned is not None:
                store_returned(returned, outputs)

        return call

    def allocations(self) -> int | None:
        """How many tensors were given memory on the device."""
        return int(torch.cuda.memory_stats().get("allocation.all.allocated", 0))

    def capture(self, calls: Sequence[Call]) -> Call:
        """The calls as one graph, with memory of its own for what they allocate."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            for call in calls:
                call()
        replay: Call = graph.replay
        return replay


def store_returned(returned: object, outputs: list[torch.Tensor]) -> None:
    """Copy what an entry returned into its outputs, after a check of shape and dtype."""
    values = returned if isinstance(returned, tuple) else (returned,)
    if len(values) != len(outputs):
        raise Admitted(Status.WRONG_SHAPE, f"returned {len(values)} outputs, the task has {len(outputs)}")
    for value, output in zip(values, outputs, strict=True):
        if not isinstance(value, torch.Tensor):
            raise Admitted(Status.WRONG_SHAPE, f"returned {type(value).__name__}, the task wants a tensor")
        if value.shape != output.shape:
            raise Admitted(Status.WRONG_SHAPE, f"returned shape {list(value.shape)}, not {list(output.shape)}")
        if value.dtype != output.dtype:
            raise Admitted(Status.WRONG_DTYPE, f"returned dtype {value.dtype}, the task wants {output.dtype}")
        output.copy_(value)


load = TorchProgram
