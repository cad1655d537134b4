"""A GPU's arena on the host: our own kernels, content, guards and rounds as they are, with programs in NumPy."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from evaluators.channel import ChannelClosed, Frame, Kind, decode, encode, receive
from evaluators.cuda.arena import CudaArena
from evaluators.cuda.device import DeviceBuffer, Gpu
from evaluators.cuda.runner import CAPTURED, WARM_UP_CALLS
from evaluators.exchange import Asked
from evaluators.layout import Layout, slot_views
from evaluators.plan import layout_of
from evaluators.task import Task
from tests.evaluators.cuda.host_driver import HostDriver

Views = dict[str, np.ndarray]


class MemoryDriver(HostDriver):
    """With memory that can be handed over, on a device that is nobody else's."""

    def granularity(self) -> int:
        return 4096

    def create_memory(self, size: int) -> int:
        return self.allocate(size)

    def export_memory(self, handle: int) -> int:
        return os.open(os.devnull, os.O_RDONLY)

    def map_memory(self, handle: int, size: int) -> int:
        return handle

    def unmap_memory(self, handle: int, address: int, size: int) -> None:
        self.free(address)

    def total_bytes(self) -> int:
        return 1 << 30

    def copy(self, target: int, source: int, size: int) -> None:
        self.upload(target, source, size)

    def turnaround_ns(self, function: object, arguments: object) -> int:
        return 1000


@dataclass
class HostRunner:
    """Obeys a judge as :class:`evaluators.cuda.runner.CudaRunner` does."""

    program: Program
    inputs: DeviceBuffer
    outputs: DeviceBuffer
    layout: Layout | None = None
    called: Sequence[int] = ()
    """The calls that were asked for together."""
    memory: dict[Any, Any] = field(default_factory=dict)
    """What the program keeps from call to call."""

    def views(self, slot: int) -> Views:
        """A slot's arguments by name, where they lie."""
        assert self.layout is not None
        parts = [memoryview((ctypes.c_ubyte * b.size).from_address(b.address)) for b in (self.inputs, self.outputs)]
        made = slot_views(self.layout, *parts, slot)
        return {p.name: view for p, view in zip(self.layout.places, made, strict=True)}

    def serve(self, channel: Any) -> None:
        while True:
            try:
                frame = receive(channel)
            except (ChannelClosed, OSError):
                channel.close()
                return
            channel.send(encode(self._obey(frame)))

    def _obey(self, frame: Frame) -> Frame:
        kind, slot = Kind.DONE, frame.slot
        if frame.kind is Kind.IMPORT:
            kind = Kind.READY
        elif frame.kind is Kind.PREPARE:
            self.layout, kind, slot = Layout.from_json(json.loads(frame.body)), Kind.PREPARED, CAPTURED
            self._call([0] * WARM_UP_CALLS)
            for order in self.layout.sequences:
                self._call(order)
        elif frame.kind is Kind.REPLAY:
            assert self.layout is not None
            self._call(self.layout.sequences[frame.slot])
        else:
            self._call([slot for (slot,) in struct.iter_unpack("<I", frame.body)])
        return Frame(kind, slot, frame.nonce)

    def _call(self, slots: Sequence[int]) -> None:
        self.called = slots
        for slot in slots:
            self.program(self, slot, self.views(slot))


Program = Callable[[HostRunner, int, Views], None]
"""One call: of whom, on which slot, its arguments."""


class _Exchange:
    def ask(self, channel, process, requests, answers, places, outputs, most_ns):
        os.write(channel, requests[0])
        assert decode(os.read(channel, 1 << 16)) == decode(answers[0])
        return Asked(1_000_000, np.empty((0, 0), np.uint8), 1)


class HostArena(CudaArena):
    """An arena whose runners are threads, and whose programs are functions."""

    def __init__(self, gpu: Gpu, task: Task, layouts: list[Layout]) -> None:
        zygote = SimpleNamespace(spawn=self._spawn)
        layouts = [*layouts, *(layout_of(task, w, 1) for w in task.workloads)]
        super().__init__(gpu, zygote, Path(), task, layouts, _Exchange())

    def _request(self, program, fds, outputs, workshop, recorder=None):
        runner = HostRunner(program, self._device_inputs, outputs)
        return _Request({"runner": runner, "channel": os.dup(fds["channel"])})

    def _spawn(self, request: _Request) -> Any:
        channel = socket.socket(fileno=request.payload["channel"])
        serving = threading.Thread(target=request.payload["runner"].serve, args=(channel,), daemon=True)
        serving.start()
        log, end = os.pipe()

        def close() -> None:
            os.close(log)
            os.close(end)

        nothing = {name: lambda *_: None for name in ("resume", "kill", "wait")}
        return SimpleNamespace(
            log=log, pid=0, pidfd=-1, stop=lambda deadline_s: 0, used_ns=lambda: 0, close=close, **nothing
        )


@dataclass
class _Request:
    payload: dict[str, Any]
