"""What runs inside a GPU runner's process: as :mod:`evaluators.runner`, with arguments in device memory.

Nothing here is trusted by the judge. Calls are recorded as a graph in PREPARE, in the orders the layout names, so that
a round is one launch; a program that cannot be recorded is run call by call, and the answer to PREPARE says so.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import socket
import struct
import traceback
from collections.abc import Mapping
from typing import Any

from evaluators.channel import ADMISSION_CODES, MAX_BODY, ChannelClosed, Frame, Kind, encode, receive
from evaluators.cuda.driver import OUT_OF_MEMORY, CudaError, Driver
from evaluators.layout import Layout
from evaluators.programs import Admitted, Call, module_of
from evaluators.programs.device import DevicePlace, DeviceProgram
from evaluators.status import Status

MESSAGE_CAP = 4000
CAPTURED, EAGER = 1, 0
WARM_UP_CALLS = 2
KEPT_RECORDINGS = 16


class CudaRunner:
    """Obeys one judge over one channel."""

    def __init__(self, payload: Mapping[str, Any], fds: Mapping[str, int]) -> None:
        self._payload = payload
        self._channel = socket.socket(fileno=fds["channel"])
        self._fds = fds
        self._program: DeviceProgram | None = None
        self._calls: list[Call] = []
        self._rounds: list[Call] = []
        self._recorded: dict[bytes, tuple[list[Call], list[Call], int]] = {}
        """Layouts whose rounds were recorded already; only the last of a program whose calls take memory."""
        self._takes_memory = False
        self._recorder: Any = None

    def serve(self) -> None:
        """Answer frames until the judge closes the channel."""
        while True:
            try:
                frame = receive(self._channel)
            except ChannelClosed:
                return
            kind, slot, failure, body = Kind.FAILED, frame.slot, 0, b""
            try:
                kind, slot = self._obey(frame)
            except BaseException as error:
                admitted = admission(error)
                failure = ADMISSION_CODES[admitted.status]
                body = str(admitted).encode(errors="replace")[-min(MESSAGE_CAP, MAX_BODY) :]
            if self._recorder is not None and frame.kind is not Kind.RECORD:  # until IMPORT there is no CUDA
                self._recorder.recorder_flush()
            self._channel.send(encode(Frame(kind, slot, frame.nonce, failure, body)))

    def _obey(self, frame: Frame) -> tuple[Kind, int]:
        if frame.kind is Kind.REPLAY:
            self._rounds[frame.slot]()
            self._driver.synchronize()
            return Kind.DONE, frame.slot
        if frame.kind is Kind.CALL:
            for (slot,) in struct.iter_unpack("<I", frame.body):
                self._calls[slot]()
            self._driver.synchronize()
            return Kind.DONE, frame.slot
        if frame.kind is Kind.PREPARE:
            return Kind.PREPARED, self._prepare(frame.body)
        if frame.kind is Kind.RECORD:
            self._open_recorder()
            return Kind.READY, frame.slot
        if frame.kind is Kind.IMPORT:
            self._import()
            return Kind.READY, frame.slot
        raise Admitted(Status.RUNTIME_ERROR, f"unexpected request {frame.kind}")

    def _open_recorder(self) -> None:
        """Before anything of the candidate's, and before CUDA starts."""
        recorder = ctypes.CDLL(self._payload["recorder"])
        code = recorder.recorder_open(self._fds["recording"])
        if code != 0:
            raise Admitted(Status.RUNTIME_ERROR, f"error {code} of CUPTI" if code > 0 else "no memory to write to")
        self._recorder = recorder

    def _import(self) -> None:
        self._driver = Driver.load(0, primary=True)
        sizes = self._payload["bytes"]
        self._inputs, self._outputs = (
            self._driver.map_memory(self._driver.import_memory(self._fds[name]), sizes[name])
            for name in ("inputs", "outputs")
        )
        self._stream = self._driver.stream()
        module = importlib.import_module(module_of(self._payload["language"]))
        self._program = module.load(self._payload, self._driver, self._stream)

    def _prepare(self, body: bytes) -> int:
        if self._program is None:
            raise Admitted(Status.RUNTIME_ERROR, "PREPARE before IMPORT")
        if body not in self._recorded:
            layout = Layout.from_json(json.loads(body))
            calls = [self._program.bind(self._places(layout, slot), layout.scalars) for slot in range(layout.slots)]
            taken = self._program.allocations()
            for _ in range(WARM_UP_CALLS):
                calls[0]()
                self._driver.synchronize()
            self._takes_memory |= taken is None or self._program.allocations() != taken
            rounds, answer = self._record(self._program, layout, calls)
            if not layout.sequences:
                self._calls, self._rounds = calls, rounds
                return answer
            # What a program frees later its older recordings may still point to.
            if not self._payload.get("keeps"):
                if self._takes_memory:
                    self._recorded.clear()
                elif len(self._recorded) >= KEPT_RECORDINGS:
                    self._recorded.pop(next(iter(self._recorded)))
            self._recorded[body] = calls, rounds, answer
        self._recorded[body] = self._recorded.pop(body)  # the one used last is the last to go
        self._calls, self._rounds, answer = self._recorded[body]
        return answer

    def _record(self, program: DeviceProgram, layout: Layout, calls: list[Call]) -> tuple[list[Call], int]:
        """The layout's rounds, and whether each is a single launch."""
        chosen = [[calls[slot] for slot in sequence] for sequence in layout.sequences]
        try:
            rounds = [program.capture(sequence) for sequence in chosen]
            for launch in rounds:
                launch()
                self._driver.synchronize()
        except Exception as error:  # a candidate's code under capture: whatever it raises, it is run call by call
            print(f"cannot be captured: {type(error).__name__}: {error}")
            return [_one_by_one(sequence) for sequence in chosen], EAGER
        return rounds, CAPTURED if rounds else EAGER

    def _places(self, layout: Layout, slot: int) -> list[DevicePlace]:
        bases = {
            False: self._inputs + slot * layout.input_stride,
            True: self._outputs + slot * layout.output_stride,
        }
        return [DevicePlace(bases[p.writable] + p.offset, p.dtype, p.shape, p.writable) for p in layout.places]


def _one_by_one(calls: list[Call]) -> Call:
    def run() -> None:
        for call in calls:
            call()

    return run


def admission(error: BaseException) -> Admitted:
    """What a failure is called; the judge believes only that there was one."""
    if isinstance(error, Admitted):
        return error
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if out_of_memory or (isinstance(error, CudaError) and error.code == OUT_OF_MEMORY):
        return Admitted(Status.OUT_OF_MEMORY, str(error) or "MemoryError")
    words = "".join(traceback.format_exception(error, limit=-6))
    return Admitted(Status.RUNTIME_ERROR, words[-MESSAGE_CAP:])


def main(payload: dict[str, Any], fds: dict[str, int]) -> None:
    """Entry of a GPU runner's process, called once the sandbox is closed."""
    CudaRunner(payload, fds).serve()
