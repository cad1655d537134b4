"""Whatever a runner sends, the judge's side of it has a verdict: a round, a failure of the candidate, nothing else."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluators import channel, exchange
from evaluators import session as session_module
from evaluators.buffers import SharedBuffer
from evaluators.channel import HEADER, MAX_BODY, Kind
from evaluators.evaluation import Status
from evaluators.exchange import Exchange
from evaluators.failure import CandidateFailure
from evaluators.layout import plan
from evaluators.session import RoundTime, Session
from evaluators.zygote.request import ExitStatus

ENDED = ExitStatus(code=0, signal=None, cpu_s=0.0, max_rss_bytes=0)
LAYOUT = plan("w", (4,), [("x", "in", "fp32", (4,)), ("out", "out", "fp32", (4,)), ("n", "inout", "i32", (2,))], 3)
DEADLINE_S = 0.02


class FakeChild:
    """A process that does nothing, in place of the runner's: it can be stopped and let go on."""

    def __init__(self) -> None:
        self.log, self._log_end = os.pipe()
        self._idle = subprocess.Popen(["sleep", "600"])
        self.pidfd = os.pidfd_open(self._idle.pid)

    def stop(self, deadline_s: float) -> int:
        """It is always stopped."""
        return 0

    def resume(self) -> None:
        """It never runs."""

    def kill(self) -> None:
        """It cannot be killed."""

    def waited_ns(self) -> int:
        """It needs no core."""
        return 0

    def used_ns(self) -> int:
        """It uses none."""
        return 0

    def wait(self, timeout_s: float) -> ExitStatus:
        """It ended long ago."""
        return ENDED

    def close(self) -> None:
        """End it and give the descriptors back."""
        self._idle.kill()
        self._idle.wait()
        os.close(self.pidfd)
        os.close(self.log)
        os.close(self._log_end)


@st.composite
def replies(draw: st.DrawFn) -> tuple[str, int, int, int, int, bool, bytes]:
    """What to send back: a frame near to a right one, any bytes, nothing, or the end of the channel."""
    how = draw(st.sampled_from(["frame", "frame", "frame", "bytes", "nothing", "close"]))
    kind = draw(st.sampled_from([*map(int, Kind), 0, 200]))
    failure, reserved, slot = draw(st.integers(0, 255)), draw(st.sampled_from([0, 0, 0, 7])), draw(st.integers(-1, 1))
    body = draw(st.sampled_from([b"", b"", b"\x1b]0;t\x07 \xff", b"x" * MAX_BODY, b"x" * (MAX_BODY + 1)]))
    if how == "bytes":
        body = draw(st.binary(max_size=40))
    return how, kind, failure, reserved, slot, draw(st.booleans()), body


def respond(sock: socket.socket, script: list[tuple[str, int, int, int, int, bool, bytes]]) -> None:
    """Answer one request after the other as the script says, some of them with the nonce they carry."""
    for how, kind, failure, reserved, slot, with_nonce, body in script:
        try:
            request = sock.recv(channel.PACKET_CAP)
            if how == "close":
                sock.shutdown(socket.SHUT_RDWR)
            if not request or how == "close":
                break
            _, _, _, asked, nonce = HEADER.unpack_from(request)
            if how == "bytes":
                sock.send(body)
            elif how == "frame":
                number = (asked + slot) % 2**32
                sock.send(struct.pack("<BBHIQ", kind, failure, reserved, number, nonce if with_nonce else 1) + body)
        except OSError:
            break


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    built = tmp_path_factory.mktemp("exchange") / "exchange.so"
    subprocess.run(["g++", *exchange.FLAGS, "-shared", "-fPIC", "-o", built, exchange.SOURCE], check=True)
    return Exchange(built, spins=False)


@pytest.fixture(scope="module")
def buffers():
    inputs = SharedBuffer("inputs", LAYOUT.input_bytes, read_only=True)
    with inputs:
        yield inputs


def verdicts(session: Session, lengths: tuple[int, ...] = (2,)) -> list[Status]:
    """What becomes of a runner from its import to the end of a round."""
    try:
        session.import_program(DEADLINE_S)
        session.prepare(LAYOUT, DEADLINE_S)
        session.guard.poison()
        *before, done = session.in_turns([2, 0], DEADLINE_S, lengths)
        assert before == [None] * (len(lengths) - 1)
        assert isinstance(done, RoundTime)
        assert done.slots == (2, 0)
        session.inspect(done)
    except CandidateFailure as failure:
        assert "\n" not in failure.message
        assert failure.status is not Status.PASSED
        return [failure.status]
    return []


@given(script=st.lists(replies(), min_size=1, max_size=5), lengths=st.sampled_from([(2,), (1, 1)]))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_answers_end_in_a_round_or_a_failure_of_the_candidate(library, buffers, script, lengths):
    ours, theirs = channel.pair()
    outputs = SharedBuffer("outputs", LAYOUT.output_bytes, read_only=False)
    session = Session(FakeChild(), ours, buffers, outputs, library)
    peer = threading.Thread(target=respond, args=(theirs, script))
    peer.start()
    try:
        verdicts(session, lengths)
    finally:
        session.close()
        peer.join()
        theirs.close()


class Busy(FakeChild):
    """It works for 50 ms whenever nobody looks."""

    used = 0

    def used_ns(self) -> int:
        """More every time."""
        self.used += 50_000_000
        return self.used


def answered(
    library: Exchange, buffers: SharedBuffer, child: FakeChild, lengths: tuple[int, ...], cores: int = 1
) -> RoundTime:
    """A round whose calls are all answered as they must be."""
    right = [("frame", kind, 0, 0, 0, True, b"") for kind in (Kind.READY, Kind.PREPARED, Kind.DONE, Kind.DONE)]
    ours, theirs = channel.pair()
    outputs = SharedBuffer("outputs", LAYOUT.output_bytes, read_only=False)
    session = Session(child, ours, buffers, outputs, library, cores=cores)
    peer = threading.Thread(target=respond, args=(theirs, right))
    peer.start()
    session.import_program(1.0)
    session.prepare(LAYOUT, 1.0)
    *_, done = session.in_turns([2, 0], 1.0, lengths)
    session.inspect(done)
    places, seen = done.peeks
    assert np.array_equal(outputs.bytes[places], seen)
    peer.join()
    session.close()
    theirs.close()
    return done


@pytest.mark.parametrize("lengths", [(2,), (1, 1)])
def test_right_answers_make_a_round(library, buffers, lengths):
    """The fuzzing above reaches the end where the answers are right."""
    done = answered(library, buffers, FakeChild(), lengths)
    assert done.slots == (2, 0)
    assert done.total_ns > 0


@pytest.mark.parametrize("cores", [1, 2])
def test_processor_time_outside_of_the_turns_counts(library, buffers, cores):
    done = answered(library, buffers, Busy(), (1, 1), cores)
    """Before a turn's reply as much as the cores could have done together, after it whole."""
    assert done.total_ns == pytest.approx(2 * (50_000_000 / cores + 50_000_000), rel=0.01)
    assert min(done.turns_us) > 70_000


def test_what_it_takes_to_stop_counts_towards_a_judgement(library, buffers, monkeypatch):
    monkeypatch.setattr(session_module, "JUDGEMENT_S", 0.0)
    ours, theirs = channel.pair()
    session = Session(
        FakeChild(), ours, buffers, SharedBuffer("outputs", LAYOUT.output_bytes, read_only=False), library
    )
    session.stop()
    session.bounded = True
    with pytest.raises(CandidateFailure, match="all its phases together"):
        session.stop()
    session.close()
    theirs.close()
