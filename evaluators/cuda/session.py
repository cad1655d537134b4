"""The judge's side of one GPU runner: as :class:`evaluators.session.Session`, with buffers in device memory."""

from __future__ import annotations

import json
import secrets
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from evaluators.channel import Frame, Kind, encode, set_receive_deadline
from evaluators.cuda.counting import WORD, counts
from evaluators.cuda.device import DeviceArray, DeviceBuffer, Gpu
from evaluators.cuda.guard import IDLE_BYTES, LEAST_IDLE, DeviceGuard
from evaluators.cuda.inouts import Inouts
from evaluators.cuda.one_core import on_one_core
from evaluators.cuda.peeks import Peeks
from evaluators.cuda.runner import CAPTURED, EAGER
from evaluators.dtypes import Array, storage_dtype
from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evaluators.exchange import Exchange
from evaluators.failure import CandidateFailure
from evaluators.layout import Layout
from evaluators.session import RoundTime, Session
from evaluators.zygote.client import Child

LATE_FACTOR, LATE_MS = 3.0, 0.5
"""Our own check of the inputs taking so many times as long as on an idle device: something else runs there."""
Store = Callable[[int, npt.NDArray[Any]], None]
CHANGED_INPUTS = "changed its inputs"
LEFT_RUNNING = "left work running on the device after its reply"
AFTERMATH_S = 5.0
"""The driver may take so long to end what a killed process had running."""
_NOWHERE = np.empty((1, 0), np.int64)


class InputSeal:
    """What the inputs of a round held before it: they are shared by the paired runners, and must not change."""

    def __init__(self, gpu: Gpu, inputs: DeviceBuffer) -> None:
        self._gpu, self._inputs = gpu, inputs
        gpu.idle_checksum_ms(0)  # measured now, before any candidate may have left something running
        gpu.settles()
        self._size = 0
        self._key = 0
        self._sum = 0
        self._open = True

    def open(self) -> None:
        """Inputs are about to be written, by the judge itself."""
        self._open = True

    def close_over(self, size: int) -> None:
        """Remember the first ``size`` bytes, unless nothing was written since. Every runner must be stopped."""
        if not self._open and size == self._size:
            return
        self._open = False
        self._key = secrets.randbits(63)
        self._size = size
        self._sum, _ = self._look()

    def broken(self) -> str | None:
        """What happened to them, or to the device on which they lie."""
        found, took = self._look()
        if found != self._sum:
            return CHANGED_INPUTS
        late = took > LATE_FACTOR * self._gpu.idle_checksum_ms(self._size) + LATE_MS
        return LEFT_RUNNING if late or not self._gpu.settles() else None

    def _look(self) -> tuple[int, float]:
        """The inputs' checksum, and how many milliseconds it took the device."""
        return self._gpu.timed_checksum(self._inputs.address, self._size, self._key)


class CudaSession(Session):
    """One GPU runner, from import to end."""

    def __init__(
        self,
        child: Child,
        channel: socket.socket,
        buffers: tuple[DeviceBuffer, DeviceBuffer],
        gpu: Gpu,
        seal: InputSeal,
        exchange: Exchange,
        *,
        core: int | None = None,
    ) -> None:
        super().__init__(child, channel, *buffers, exchange)  # type: ignore[arg-type]
        self._gpu, self._seal, self._core = gpu, seal, core
        self._peeks = Peeks(gpu, buffers[1].address)
        self._device_guard: DeviceGuard | None = None
        self.inouts = Inouts(gpu, 0)
        """What arguments that are changed in place hold before a round; whoever opens the session gives it others."""
        self.store_device: Store = gpu.upload
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        """What surrounds the part of a round in which the runner runs: counters, in rounds that are not timed."""
        self._digest_key = secrets.randbits(63)

    @property
    def guard(self) -> DeviceGuard:  # type: ignore[override]
        """Poison and guard zones of the prepared workload."""
        if self._device_guard is None:
            raise RuntimeError("no workload is prepared")
        return self._device_guard

    def open_recorder(self, deadline_s: float) -> None:
        """Have the runner begin to record, before IMPORT.

        Raises:
            JudgeError: it cannot. Nothing of the candidate's has run in that process: it is not its fault.
        """
        try:
            self._ask(Kind.RECORD, Kind.READY, deadline_s, "record")
        except CandidateFailure as failure:
            raise JudgeError(f"the recorder of kernels did not begin: {failure.message}") from failure

    def prepare_running(self, layout: Layout, deadline_s: float) -> None:
        """PREPARE a workload and leave the runner running."""
        if layout.output_bytes > self.outputs.size or layout.input_bytes > self.inputs.size:
            raise ValueError(f"workload {layout.workload} does not fit its buffers")
        self._layout = layout
        if self._device_guard is not None:
            self._device_guard.close()
        self._device_guard = DeviceGuard(self._gpu, layout, self.outputs, self._rng)  # type: ignore[arg-type]
        self.inouts.blank(layout, self._outputs_at)
        self._device_guard.arm()
        self._gpu.synchronize()
        body = json.dumps(layout.to_json(), separators=(",", ":")).encode()
        answer = self._ask(Kind.PREPARE, Kind.PREPARED, deadline_s, "prepare", body, slot=EAGER, also=(CAPTURED,))
        self.captured = answer == CAPTURED
        self._device_guard.poison()
        self._gpu.synchronize()

    def arguments(self, slot: int) -> dict[str, Any]:
        """One slot's arguments by name, copied from the device as far as they are looked at."""
        made = {}
        for place in self.layout.places:
            address = self._address(place.writable, slot) + place.offset
            made[place.name] = DeviceArray(self._gpu, address, storage_dtype(place.dtype), place.shape)
        return made

    def store(self, slot: int, content: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write some of a slot's arguments; of those that are changed in place what the next rounds begin with."""
        for place in (p for p in self.layout.places if p.name in content):
            if place.role == "inout":
                start = self.inouts.address(self.layout, slot)
            else:
                self._seal.open()
                start = self._address(place.writable, slot)
            self.store_device(start + place.offset, content[place.name])

    def before(self, slots: Sequence[int]) -> dict[int, dict[str, Array]]:
        """What arguments that are changed in place hold before a round, until the next content is written."""
        return {slot: self.inouts.of(self.layout, slot) for slot in slots}

    def give_inouts(self, other: Session, slots: Sequence[int]) -> None:
        """Nothing to do: all runners of an arena get them from the same copy."""

    def left_alone(self, slots: Sequence[int]) -> list[tuple[int, Array]]:
        """See :meth:`Inouts.left_alone`."""
        return self.inouts.left_alone(self.layout, self._outputs_at, slots, self._rng)

    def digests(self, slot: int) -> dict[str, object]:
        """A checksum of every output."""
        places = [p for p in self.layout.places if p.writable]
        start = self._address(True, slot)
        runs = [(start + place.offset, place.nbytes, self._digest_key) for place in places]
        found = counts(self._gpu, "checksum", max((place.nbytes // WORD for place in places), default=0), runs)
        return {place.name: int(value) for place, value in zip(places, found, strict=True)}

    def call(self, slot: int, deadline_s: float) -> dict[str, npt.NDArray[Any]]:
        """One untimed call; returns copies of its outputs."""
        self.guard.poison([slot])
        self.inspect(self.round([slot], deadline_s))
        arguments = self.arguments(slot)
        return {p.name: np.asarray(arguments[p.name]) for p in self.layout.places if p.writable}

    def round(self, slots: Sequence[int], call_deadline_s: float) -> RoundTime:
        """Run the calls of these slots: one launch where they were captured, else one request for all of them."""
        with on_one_core(self.child.pid, self._core):
            return self._round(slots, call_deadline_s)

    def _round(self, slots: Sequence[int], call_deadline_s: float) -> RoundTime:
        places = self._peek_places(slots).ravel()
        self._peeks.hold(places)  # before the round: nothing is between the reply and the look
        self._seal.close_over(self.layout.input_bytes)
        self.inouts.restore(self.layout, self._outputs_at, slots)
        self._gpu.synchronize()
        if not self._gpu.settles():  # work can also have waited for what was just written
            self._blame_for_what_runs()
        nonce = secrets.randbits(64)
        sequences = self.layout.sequences
        if tuple(slots) in sequences:
            frame = Frame(Kind.REPLAY, sequences.index(tuple(slots)), nonce)
        else:
            frame = Frame(Kind.CALL, 0, nonce, body=struct.pack(f"<{len(slots)}I", *slots))
        packet, answer = encode(frame), encode(Frame(Kind.DONE, frame.slot, nonce))
        set_receive_deadline(self._channel, call_deadline_s)
        self._assert_quiet()
        assert self._exchange is not None
        with self.around(), self._taking():
            asked = self._exchange.ask(
                self._channel.fileno(), self.child.pidfd, [packet], [answer], _NOWHERE, np.empty(0, np.uint8),
                round(1e9 * call_deadline_s),
            )  # fmt: skip
        self._answered(asked, [answer], call_deadline_s)
        seen = self._peeks.look(places)
        self.stop()
        self._assert_quiet()
        # Now, before the other runner of a pair gets these inputs and this device: who ran last is to blame.
        broken = self._seal.broken()
        if broken == LEFT_RUNNING:
            self._blame_for_what_runs()
        elif broken:
            raise CandidateFailure(Status.CHEATING, broken)
        nothing = (np.empty(0, np.intp), np.empty(0, np.uint8))
        return RoundTime(asked.total_ns, tuple(slots), (places, seen), nothing, waited_share=0.0)

    def in_turns(self, slots: Sequence[int], call_deadline_s: float, lengths: Sequence[int]) -> Iterator[RoundTime]:
        """A round here is one launch, and so one turn."""
        if len(lengths) != 1:
            raise ValueError("a round on a GPU has one turn")
        yield self.round(slots, call_deadline_s)

    def inspect(self, time: RoundTime) -> None:
        """Check what the round left: guards, late writes, slots that were not called."""
        idle = np.delete(np.arange(self.layout.slots), np.asarray(time.slots, dtype=np.intp))
        if len(idle):
            self.guard.expect_idle(idle)
        seen = self.guard.look()
        if seen.broken:
            raise CandidateFailure(Status.RUNTIME_ERROR, seen.broken)
        places, values = time.peeks
        if not np.array_equal(self._peeks.look(places), values):
            raise CandidateFailure(Status.CHEATING, "an output changed after the reply: late work")
        if len(idle) and (seen.touched or self._changed(idle)):
            raise CandidateFailure(Status.CHEATING, "wrote the output of a slot that was never called")
        self._log.drain()

    def close(self) -> None:
        """Kill the runner and give back what the session holds; the driver ends whatever it left running."""
        super().close()
        self._peeks.close()
        if self._device_guard is not None:
            self._device_guard.close()

    def _blame_for_what_runs(self) -> NoReturn:
        """End the runner: what still runs then is not its work.

        Raises:
            CandidateFailure: nothing does.
            JudgeError: something does.
        """
        self.child.kill()
        self.child.wait(AFTERMATH_S)
        if not self._gpu.settles(AFTERMATH_S):
            raise JudgeError("others use this device: work goes on there after the runner was ended")
        raise CandidateFailure(Status.CHEATING, LEFT_RUNNING)

    def _changed(self, idle: npt.NDArray[np.intp]) -> bool:
        """Whether a slot that was not called holds anything else to be changed in place: some, drawn only now."""
        count = max(IDLE_BYTES // max(self.layout.output_stride, 1), LEAST_IDLE)
        return self.inouts.changed(self.layout, self._outputs_at, self._rng.permutation(idle)[:count])

    @property
    def _outputs_at(self) -> int:
        return self.outputs.address  # type: ignore[attr-defined,no-any-return]

    def _address(self, writable: bool, slot: int) -> int:
        if writable:
            return self._outputs_at + slot * self.layout.output_stride
        return self.inputs.address + slot * self.layout.input_stride  # type: ignore[attr-defined,no-any-return]
