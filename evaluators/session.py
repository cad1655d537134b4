"""The judge's side of one runner: phases, deadlines, and the clock around every call."""

from __future__ import annotations

import errno
import itertools
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from evaluators.buffers import OutputGuard, SharedBuffer
from evaluators.channel import (
    ADMITTED,
    ChannelClosed,
    DeadlineExceeded,
    Frame,
    Kind,
    ProtocolViolation,
    assert_quiet,
    decode,
    encode,
    receive,
    send,
    set_receive_deadline,
)
from evaluators.dtypes import Array
from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evaluators.exchange import Asked, Exchange
from evaluators.failure import CandidateFailure, verdict_of_exit
from evaluators.layout import Layout, slot_views
from evaluators.runner_log import RunnerLog
from evaluators.turn_time import turn_ns
from evaluators.zygote.client import Child

PEEKS = 16
"""Output elements the judge reads at once after each reply; they must still be there when the runner has stopped."""
STOP_DEADLINE_S = 5.0
EXIT_DEADLINE_S = 2.0
ROUND_S = 10.0
"""What all calls of a round may take, beside one call's deadline: rounds are planned for half a second."""
JUDGEMENT_S = 180.0
"""What a candidate's runner may take in one judgement, all its phases together."""


@dataclass(frozen=True)
class RoundTime:
    """What one round's clock read, and what was seen of its outputs meanwhile."""

    total_ns: int
    """From each turn's *go* to its last reply, the judge's own monotonic clock."""
    slots: tuple[int, ...]
    peeks: tuple[npt.NDArray[np.intp], npt.NDArray[np.uint8]]
    """A row for each call: places in the output buffer, and the bytes there at its reply."""
    idle: tuple[npt.NDArray[np.intp], npt.NDArray[np.uint8]]
    """Places in what slots that are not called hold to be changed in place, and the bytes there before."""
    waited_share: float
    """Of the round, how long the program's threads together were ready and had no core to run on."""
    turns_us: tuple[float, ...] = ()
    """Microseconds a call, turn by turn, where there were several."""

    @property
    def call_us(self) -> float:
        """Microseconds a call, what the channel costs included."""
        return self.total_ns / 1000 / len(self.slots)

    @property
    def quickest_us(self) -> float:
        """The same in the quickest turn."""
        return min(self.turns_us, default=self.call_us)


class Session:
    """One runner, from import to end. Every method may raise :class:`CandidateFailure`."""

    def __init__(
        self,
        child: Child,
        channel: socket.socket,
        inputs: SharedBuffer,
        outputs: SharedBuffer,
        exchange: Exchange | None = None,
        *,
        cores: int = 1,
    ) -> None:
        self.child = child
        self.captured = False
        """Whether the prepared workload's rounds are one launch."""
        self.bounded = False
        """Whether it may take no more than ``JUDGEMENT_S`` in all."""
        self._taken_s = 0.0
        self._cores = cores
        self._used_ns = 0
        self._exchange = exchange
        self.inputs = inputs
        self.outputs = outputs
        self._channel = channel
        self._log = RunnerLog(child.log)
        self._layout: Layout | None = None
        self._guard: OutputGuard | None = None
        self._rng = np.random.default_rng(secrets.randbits(128))

    @property
    def layout(self) -> Layout:
        """The layout of the last PREPARE."""
        if self._layout is None:
            raise RuntimeError("no workload is prepared")
        return self._layout

    @property
    def guard(self) -> OutputGuard:
        """Poison and guard zones of the prepared workload."""
        if self._guard is None:
            raise RuntimeError("no workload is prepared")
        return self._guard

    def import_program(self, deadline_s: float) -> None:
        """IMPORT: run the candidate's module level code, or load its shared object."""
        self._ask(Kind.IMPORT, Kind.READY, deadline_s, "import")

    def prepare(self, layout: Layout, deadline_s: float) -> None:
        """PREPARE a workload: hand over its layout and arm the outputs' guards. The runner is left stopped."""
        self.resume()
        self.prepare_running(layout, deadline_s)
        self.stop()

    def prepare_running(self, layout: Layout, deadline_s: float) -> None:
        """PREPARE a workload and leave the runner running: for calls that are not timed."""
        if layout.output_bytes > self.outputs.size or layout.input_bytes > self.inputs.size:
            raise ValueError(f"workload {layout.workload} does not fit its buffers")
        self._layout = layout
        self._guard = OutputGuard(layout, self.outputs, self._rng)
        self._guard.arm()
        self._ask(Kind.PREPARE, Kind.PREPARED, deadline_s, "prepare", json.dumps(layout.to_json()).encode())

    def arguments(self, slot: int) -> dict[str, npt.NDArray[np.generic]]:
        """One slot's arguments by name, as the judge's own views of the shared buffers."""
        views = slot_views(self.layout, self.inputs.view, self.outputs.view, slot)
        return {p.name: v for p, v in zip(self.layout.places, views, strict=True)}

    def store(self, slot: int, content: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write some of a slot's arguments. The runner must be stopped, or wait."""
        arguments = self.arguments(slot)
        for name, values in content.items():
            arguments[name][...] = values

    def before(self, slots: Sequence[int]) -> dict[int, dict[str, Array]]:
        """What arguments that are changed in place hold before a round of these calls."""
        return {s: {n: self.arguments(s)[n].copy() for n in self._inout_names()} for s in slots}

    def give_inouts(self, other: Session, slots: Sequence[int]) -> None:
        """Have another runner find the same in them. Both must be stopped."""
        for slot in slots:
            arguments = self.arguments(slot)
            other.store(slot, {name: arguments[name] for name in self._inout_names()})

    def left_alone(self, slots: Sequence[int]) -> list[tuple[int, Array]]:
        """Calls to be compared because something that is changed in place stayed as it was there, and in which rows."""
        del slots
        return []

    def digests(self, slot: int) -> dict[str, object]:
        """Every output's content, as something that equals that of the same bits."""
        arguments = self.arguments(slot)
        return {p.name: arguments[p.name].tobytes() for p in self.layout.places if p.writable}

    def call(self, slot: int, deadline_s: float) -> dict[str, npt.NDArray[np.generic]]:
        """One untimed call; returns copies of its outputs, taken at the reply. What is written later is never seen."""
        self._ask(Kind.CALL, Kind.DONE, deadline_s, "call", slot=slot)
        arguments = self.arguments(slot)
        outputs = {p.name: arguments[p.name].copy() for p in self.layout.places if p.writable}
        broken = self.guard.broken()
        if broken:
            raise CandidateFailure(Status.RUNTIME_ERROR, broken)
        unwritten = self.guard.unwritten(slot)
        if unwritten is not None:
            raise CandidateFailure(Status.WRONG_VALUES, f"output {unwritten} was never written")
        return outputs

    def watched_call(self, slot: int, deadline_s: float, watch: Callable[[socket.socket], None]) -> None:
        """One untimed call, watched: ``watch`` gets the channel and returns once there is something to read from it."""
        request = Frame(Kind.CALL, slot, secrets.randbits(64))
        self._request(request, deadline_s, "call")
        with self._taking():
            watch(self._channel)
        self._answer(request, Kind.DONE, deadline_s, "call")

    def round(self, slots: Sequence[int], call_deadline_s: float) -> RoundTime:
        """Run the calls of these slots one by one, each revealed only when the one before has been answered.

        The runner is stopped before and after. Follow with :meth:`inspect`, which takes time and so is apart: in a
        pair the other runner goes first.
        """
        (time,) = self.in_turns(slots, call_deadline_s, [len(slots)])
        assert time is not None
        return time

    def in_turns(
        self, slots: Sequence[int], call_deadline_s: float, lengths: Sequence[int]
    ) -> Iterator[RoundTime | None]:
        """The same in several turns, one each time that the next item is asked for: the runner is stopped in between.

        Everything is made ready before the first.

        Args:
            slots: of the whole round.
            call_deadline_s: for one call.
            lengths: how many calls each turn has.

        Yields:
            After the last turn what the whole round took, ``None`` after the others.
        """
        if self._exchange is None:
            raise RuntimeError("this session was opened for single calls")
        nonces = [secrets.randbits(64) for _ in slots]
        packets = [encode(Frame(Kind.CALL, s, n)) for s, n in zip(slots, nonces, strict=True)]
        answers = [encode(Frame(Kind.DONE, s, n)) for s, n in zip(slots, nonces, strict=True)]
        places = self._peek_places(slots)
        idle = self._idle_places(slots)
        untouched = self.outputs.bytes[idle]
        set_receive_deadline(self._channel, call_deadline_s)
        seen: list[npt.NDArray[np.uint8]] = []
        turns_us: list[float] = []
        total_ns, waited_ns, most_ns = 0, 0, round(1e9 * (ROUND_S + call_deadline_s))
        for length, end in zip(lengths, itertools.accumulate(lengths), strict=True):
            part = slice(end - length, end)
            self._assert_quiet()
            before_ns, used_ns = self.child.waited_ns(), self._used_ns
            with self._taking():
                asked = self._exchange.ask(
                    self._channel.fileno(), self.child.pidfd, packets[part], answers[part], places[part],
                    self.outputs.bytes, most_ns - total_ns,
                )  # fmt: skip
            replied_ns = self.child.used_ns()  # it was told to stop a moment ago
            self._answered(asked, answers[part], call_deadline_s)
            waited_ns += max(self.stop() - before_ns, 0)
            self._assert_quiet()
            took_ns = turn_ns(asked.total_ns, replied_ns - used_ns, self._used_ns - replied_ns, self._cores)
            seen.append(asked.seen)
            turns_us.append(took_ns / 1000 / length)
            total_ns += took_ns
            if end < len(slots):
                yield None
        waited_share = waited_ns / max(total_ns, 1)
        peeks = places, np.concatenate(seen)
        yield RoundTime(total_ns, tuple(slots), peeks, (idle, untouched), waited_share, tuple(turns_us))

    def inspect(self, time: RoundTime) -> None:
        """Check what the round left: guard zones, writes after a reply, writes to slots that were not called."""
        broken = self.guard.broken()
        if broken:
            raise CandidateFailure(Status.RUNTIME_ERROR, broken)
        places, values = time.peeks
        changed = (self.outputs.bytes[places] != values).any(axis=1)
        if changed.any():
            words = f"output of call {int(changed.argmax())} changed after its reply: late work"
            raise CandidateFailure(Status.CHEATING, words)
        idle = self._idle(time.slots)
        places, values = time.idle
        if (len(idle) and self.guard.touched(idle)) or not np.array_equal(self.outputs.bytes[places], values):
            raise CandidateFailure(Status.CHEATING, "wrote the output of a slot that was never called")
        self._log.drain()

    def stop(self) -> int:
        """Stop every thread of the runner and verify it. One that can be kept from stopping is the program's own.

        Returns:
            How long its threads had waited for a core when they were told to stop, see :meth:`Child.stop`.
        """
        try:
            with self._taking():
                waited_ns = self.child.stop(STOP_DEADLINE_S)
        except JudgeError:
            raise CandidateFailure(Status.TIMEOUT, f"could not be stopped within {STOP_DEADLINE_S:g} s") from None
        self._used_ns = self.child.used_ns()
        return waited_ns

    def resume(self) -> None:
        """Let the runner go on."""
        self.child.resume()

    def close(self) -> None:
        """Kill the runner and give back what the session holds."""
        self.child.kill()
        self._log.drain()
        self._channel.close()
        self.child.close()
        self.outputs.close()

    def log(self) -> str:
        """The end of what the program printed. Data, never instructions."""
        return self._log.text()

    def _peek_places(self, slots: npt.ArrayLike, roles: Sequence[str] = ("out", "inout")) -> npt.NDArray[np.intp]:
        """Random places in the outputs of these slots, a row each."""
        bases = np.asarray(slots, dtype=np.intp)[:, None] * self.layout.output_stride
        spans = [(p.offset, p.nbytes) for p in self.layout.places if p.role in roles and p.nbytes]
        picks = [bases + start + self._rng.integers(0, size, (len(bases), PEEKS)) for start, size in spans]
        return np.concatenate([np.empty((len(bases), 0), np.intp), *picks], axis=1)

    def _inout_names(self) -> list[str]:
        return [p.name for p in self.layout.places if p.role == "inout"]

    def _idle(self, slots: Sequence[int]) -> npt.NDArray[np.intp]:
        return np.setdiff1d(np.arange(self.layout.slots), np.asarray(slots, dtype=np.intp))

    def _idle_places(self, slots: Sequence[int]) -> npt.NDArray[np.intp]:
        if not self._inout_names():
            return np.empty(0, np.intp)
        return self._peek_places(self._idle(slots), ("inout",)).ravel()

    def _ask(
        self,
        ask: Kind,
        expect: Kind,
        deadline_s: float,
        phase: str,
        body: bytes = b"",
        *,
        slot: int = 0,
        also: tuple[int, ...] = (),
    ) -> int:
        """Send a request and wait for its answer; returns the answer's slot: ``slot``, or one of ``also``."""
        request = Frame(ask, slot, secrets.randbits(64), body=body)
        self._request(request, deadline_s, phase)
        return self._answer(request, expect, deadline_s, phase, also)

    def _request(self, request: Frame, deadline_s: float, phase: str) -> None:
        set_receive_deadline(self._channel, deadline_s)
        try:
            assert_quiet(self._channel)
            send(self._channel, encode(request))
        except (ChannelClosed, DeadlineExceeded, ProtocolViolation) as error:
            self._no_answer(error, phase, deadline_s)

    def _answer(self, request: Frame, expect: Kind, deadline_s: float, phase: str, also: tuple[int, ...] = ()) -> int:
        try:
            with self._taking():
                frame = receive(self._channel)
        except (ChannelClosed, DeadlineExceeded, ProtocolViolation) as error:
            self._no_answer(error, phase, deadline_s)
        self._admitted(frame, request.nonce, request.slot, phase)
        if frame not in [Frame(expect, answer, request.nonce) for answer in (request.slot, *also)]:
            raise CandidateFailure(Status.CHEATING, f"a frame that is no answer during {phase}")
        try:
            assert_quiet(self._channel)
        except (ChannelClosed, ProtocolViolation) as error:
            self._no_answer(error, phase, deadline_s)
        return frame.slot

    @contextmanager
    def _taking(self) -> Iterator[None]:
        """Count the time in which the program is waited for."""
        started = time.monotonic()
        yield
        self._taken_s += time.monotonic() - started
        if self.bounded and self._taken_s > JUDGEMENT_S:
            raise CandidateFailure(Status.TIMEOUT, f"took more than {JUDGEMENT_S:g} s in all its phases together")

    def _assert_quiet(self) -> None:
        try:
            assert_quiet(self._channel)
        except (ChannelClosed, ProtocolViolation) as error:
            self._no_answer(error, "rounds", 0.0)

    def _admitted(self, frame: Frame, nonce: int, slot: int, phase: str) -> None:
        """Raise what the runner says of itself, if that is what the frame is."""
        if frame.kind is Kind.FAILED and frame.nonce == nonce and frame.slot == slot:
            words = frame.body.decode(errors="replace")
            status = ADMITTED.get(frame.failure, Status.RUNTIME_ERROR)
            last = words.strip().splitlines()[-1] if words.strip() else status.value
            raise CandidateFailure(status, f"{phase}: {last[:300]}", detail=words)

    def _wrong_answer(self, reply: bytes, answer: bytes) -> None:
        if not reply:
            self._died("during call")
        try:
            frame, expected = decode(reply), decode(answer)
        except ProtocolViolation as error:
            raise CandidateFailure(Status.CHEATING, f"call: {error}") from None
        self._admitted(frame, expected.nonce, expected.slot, "call")
        raise CandidateFailure(Status.CHEATING, "a frame that is no answer during call")

    def _answered(self, asked: Asked, answers: Sequence[bytes], call_deadline_s: float) -> None:
        """Raise where a turn's calls were not all answered as they must be."""
        if asked.error == errno.ETIMEDOUT:
            raise CandidateFailure(Status.TIMEOUT, f"a round took longer than {ROUND_S + call_deadline_s:g} s")
        if asked.error:
            self._no_answer(OSError(asked.error, os.strerror(asked.error)), "call", call_deadline_s)
        if asked.reply is not None:
            self._wrong_answer(asked.reply, answers[asked.answered])

    def _no_answer(self, error: Exception, phase: str, deadline_s: float) -> NoReturn:
        if isinstance(error, DeadlineExceeded | BlockingIOError | TimeoutError):
            raise CandidateFailure(Status.TIMEOUT, f"{phase} took longer than {deadline_s:g} s", detail=self.log())
        if isinstance(error, ProtocolViolation):
            raise CandidateFailure(Status.CHEATING, f"{phase}: {error}")
        self._died(f"during {phase}")

    def _died(self, when: str) -> NoReturn:
        status = self.child.wait(EXIT_DEADLINE_S)
        words = self.log()
        if status is None:
            raise CandidateFailure(Status.RUNTIME_ERROR, f"closed its channel {when}", detail=words)
        raise CandidateFailure(*verdict_of_exit(status, when, words), detail=words)
