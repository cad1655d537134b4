"""What the judge sees of a round on a device, and how often it waits for that: its own kernels, run on the host."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators import channel
from evaluators.cuda import device
from evaluators.cuda.counting import counts
from evaluators.cuda.device import Gpu
from evaluators.cuda.guard import DeviceGuard
from evaluators.cuda.peeks import Peeks
from evaluators.cuda.session import CudaSession
from evaluators.evaluation import Status
from evaluators.exchange import Asked
from evaluators.failure import CandidateFailure
from evaluators.layout import plan
from tests.evaluators.cuda.host_driver import HostDriver

SLOTS, CALLED = 6, [0, 2, 3, 5]
OUTPUTS = [("large", "out", "fp32", (8, 201)), ("odd", "out", "u8", (1, 1037)), ("small", "out", "bf16", (3, 5))]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(device, "compile_cubin", lambda *arguments: b"")
    patch.setattr(HostDriver, "turnaround_ns", lambda *arguments: 10_000, raising=False)
    yield Gpu(HostDriver(tmp_path_factory.mktemp("kernels")))
    patch.undo()


@pytest.fixture
def waits(gpu, monkeypatch):
    """How often something was asked of the device, or handed to it, so that the host had to wait."""
    counted = {"upload": 0, "download": 0}
    for name in counted:
        really = getattr(gpu.driver, name)

        def counting(*arguments, name=name, really=really):
            counted[name] += 1
            return really(*arguments)

        monkeypatch.setattr(gpu.driver, name, counting)
    return counted


class Program:
    """In place of a runner: writes the outputs of the slots that it was asked for, and what else it is told to."""

    def __init__(self, gpu, layout, base):
        self.gpu, self.layout, self.base = gpu, layout, base
        self.during = lambda: None

    def ask(self, channel, process, requests, answers, places, outputs, most_ns):
        for slot in CALLED:
            self.write(slot)
        self.during()
        return Asked(1000, np.empty((0, 0), np.uint8), len(answers), 0, None)

    def at(self, slot, name, byte=0):
        (place,) = (p for p in self.layout.places if p.name == name)
        return self.base + slot * self.layout.output_stride + place.offset + byte

    def write(self, slot):
        for place in self.layout.places:
            self.gpu.upload(self.at(slot, place.name), np.full(place.nbytes, 7, np.uint8))

    def poke(self, address):
        before = np.empty(1, np.uint8)
        self.gpu.download(before, address)
        self.gpu.upload(address, before ^ 1)


@pytest.fixture
def played(gpu):
    """A session with a program in it; both ends of its channel are closed afterwards."""
    layout = plan("w", (), OUTPUTS, SLOTS)
    address = gpu.driver.allocate(layout.output_bytes)
    memory = SimpleNamespace(address=address, size=layout.output_bytes, close=lambda: None)
    program = Program(gpu, layout, address)
    ours, theirs = channel.pair()
    log, log_end = os.pipe()
    quiet = {"resume": lambda: None, "stop": lambda deadline_s: 0, "used_ns": lambda: 0, "kill": lambda: None}
    child = SimpleNamespace(log=log, pid=0, pidfd=-1, **quiet)
    seal = SimpleNamespace(close_over=lambda size: None, broken=lambda: None)
    session = CudaSession(child, ours, (memory, memory), gpu, seal, program)
    session._layout = layout
    session._device_guard = DeviceGuard(gpu, layout, memory, np.random.default_rng(5))
    session.guard.arm()
    yield session, program
    session._peeks.close()
    session.guard.close()
    ours.close()
    theirs.close()
    os.close(log)
    os.close(log_end)


def play(session):
    session.guard.poison(CALLED)
    return session.round(CALLED, 10)


def test_a_round_in_which_everything_is_as_it_should_be_passes_again_and_again(played):
    session, _ = played
    for _ in range(3):
        session.inspect(play(session))
        assert session.guard.unwritten_among(CALLED) == []


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        pytest.param(lambda p: p.poke(p.at(2, "large", -1)), Status.RUNTIME_ERROR, "outside its output", id="guard"),
        pytest.param(lambda p: p.poke(p.at(1, "small", 29)), Status.CHEATING, "never called", id="idle slot"),
        pytest.param(lambda p: p.poke(p.at(4, "odd", 1036)), Status.CHEATING, "never called", id="its last odd byte"),
    ],
)
def test_what_a_program_has_no_business_to_write_is_seen_after_its_round(played, what, status, words):
    session, program = played
    program.during = lambda: what(program)
    time = play(session)
    with pytest.raises(CandidateFailure, match=words) as caught:
        session.inspect(time)
    assert caught.value.status is status


def test_an_output_that_changes_after_the_reply_is_late_work(played, gpu):
    session, program = played
    time = play(session)
    for slot in CALLED:
        gpu.upload(program.at(slot, "small"), np.full(30, 9, np.uint8))
    with pytest.raises(CandidateFailure, match="late work"):
        session.inspect(time)


def test_a_round_that_is_looked_at_after_another_one_is_looked_at_where_it_was(played):
    session, _ = played
    first = play(session)
    second = session.round(CALLED, 10)
    session.inspect(first)
    session.inspect(second)


@pytest.mark.parametrize("name", ["large", "odd", "small"])
def test_an_output_that_is_left_out_in_one_slot_is_seen_in_that_slot(played, gpu, name):
    session, program = played
    play(session)
    session.guard.poison(CALLED)
    for slot in (0, 2, 5):
        program.write(slot)
    for place in session.layout.places:
        if place.name != name:
            gpu.upload(program.at(3, place.name), np.full(place.nbytes, 7, np.uint8))
    assert session.guard.unwritten_among(CALLED) == [3]
    assert session.guard.unwritten(3) == name
    assert session.guard.unwritten(2) is None


def test_however_many_outputs_and_guards_there_are_a_look_waits_once(played, waits):
    session, _ = played
    time = play(session)
    waits.update(upload=0, download=0)
    session.guard.look()
    assert waits == {"upload": 0, "download": 1}
    session.inspect(time)
    assert waits == {"upload": 0, "download": 3}, "and once for the places that were looked at after the reply"


def test_poisoning_asks_nothing_of_the_device(played, waits):
    session, _ = played
    session.guard.poison(CALLED)
    assert waits["download"] == 0


def test_digests_are_those_of_the_outputs_bits(played, waits):
    session, program = played
    play(session)
    waits.update(download=0)
    assert session.digests(0) == session.digests(2)
    assert waits["download"] == 2
    before = session.digests(0)
    program.poke(program.at(0, "odd", 1000))
    after = session.digests(0)
    assert {name for name in before if before[name] != after[name]} == {"odd"}


def test_places_that_were_made_ready_are_read_without_handing_them_over(gpu, waits):
    values = np.random.default_rng(0).integers(0, 256, 70_000, dtype=np.uint8)
    address = gpu.driver.allocate(values.nbytes)
    gpu.upload(address, values)
    peeks = Peeks(gpu, address)
    for count in (3, 20_000, 5, 0):
        places = np.random.default_rng(count).integers(0, len(values), count)
        peeks.hold(places)
        waits.update(upload=0)
        assert np.array_equal(peeks.look(places), values[places])
        assert waits["upload"] == 0
    others = np.array([69_999, 0])
    assert np.array_equal(peeks.look(others), values[others])
    peeks.close()


def test_each_run_of_a_kernel_has_a_counter_of_its_own(gpu):
    values = np.zeros(64, np.uint8)
    address = gpu.driver.allocate(values.nbytes)
    gpu.upload(address, values)
    slots = gpu.table(np.array([0], np.uint64))
    runs = [(address, 64, slots, 0, size, 1) for size in (8, 64, 0)]
    assert counts(gpu, "differing_words", 8, runs).tolist() == [1, 8, 0]
    assert counts(gpu, "differing_words", 8, []).tolist() == []
