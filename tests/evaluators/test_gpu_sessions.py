"""The judge's side of a GPU runner, without a GPU: a recorder that does not begin, time that rounds take."""

import json
import os
import shutil
import socket
import subprocess
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators import channel, session
from evaluators.cuda.runner import KEPT_RECORDINGS, CudaRunner
from evaluators.cuda.session import LEFT_RUNNING, CudaSession
from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evaluators.exchange import Asked
from evaluators.failure import CandidateFailure
from evaluators.gpu_judge import CORES_FOR_ROUNDS, builder_cores, core_for_rounds
from evaluators.layout import Layout

RECORDER = "int recorder_open(int fd) { return %s; } int recorder_flush(void) { return 0; }"


class Answering:
    """In place of the native end of a round: every call is answered as it must be."""

    def ask(self, channel, process, requests, answers, places, outputs, most_ns):
        return Asked(1000, np.empty((0, 0), np.uint8), len(answers), 0, None)


@pytest.fixture
def opened():
    """A session, and the runner's end of its channel."""
    ours, theirs = channel.pair()
    log, log_end = os.pipe()
    quiet = {"resume": lambda: None, "stop": lambda deadline_s: 0, "used_ns": lambda: 0}
    child = SimpleNamespace(log=log, pid=os.getpid(), pidfd=-1, **quiet)
    seal = SimpleNamespace(close_over=lambda size: None, broken=lambda: None)
    gpu = SimpleNamespace(synchronize=lambda: None, upload=None, settles=lambda: True)
    memory = SimpleNamespace(address=0, size=1 << 20)
    made = CudaSession(child, ours, (memory, memory), gpu, seal, Answering())
    made._layout = Layout("w", (), (), 0, 0, 4)
    yield made, theirs
    ours.close()
    theirs.close()
    os.close(log)
    os.close(log_end)


def in_a_thread(serve):
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def begin(opened, tmp_path, returns):
    """Have a runner begin to record, with a recorder that returns this."""
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    made, theirs = opened
    library = tmp_path / "recorder.so"
    source = RECORDER % returns
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    runner = CudaRunner({"recorder": str(library)}, {"channel": os.dup(theirs.fileno()), "recording": 0})
    serving = in_a_thread(runner.serve)
    try:
        made.open_recorder(10)
    finally:
        made._channel.shutdown(2)
        serving.join(10)


@pytest.mark.parametrize(("returns", "words"), [(39, "error 39 of CUPTI"), (-1, "no memory")])
def test_a_recorder_that_does_not_begin_is_our_failure(opened, tmp_path, returns, words):
    with pytest.raises(JudgeError, match=words):
        begin(opened, tmp_path, returns)


def test_a_recorder_that_begins_is_heard_of_no_more(opened, tmp_path):
    begin(opened, tmp_path, 0)


def test_rounds_count_in_what_a_program_may_take_in_one_judgement(opened, monkeypatch):
    made, _ = opened
    monkeypatch.setattr(session, "JUDGEMENT_S", 0.0)
    assert made.round([0, 1], 10).slots == (0, 1)
    made.bounded = True
    with pytest.raises(CandidateFailure, match="in all its phases") as caught:
        made.round([0, 1], 10)
    assert caught.value.status is Status.TIMEOUT


@pytest.mark.parametrize("before", [True, False], ids=["before a round", "after it"])
@pytest.mark.parametrize(
    ("settles", "error", "words"),
    [
        pytest.param(True, CandidateFailure, LEFT_RUNNING, id="it was the program's"),
        pytest.param(False, JudgeError, "others use this device", id="it goes on when the program is gone"),
    ],
)
def test_a_program_is_blamed_for_work_only_if_that_ends_with_it(opened, before, settles, error, words):
    made, _ = opened
    ended = []
    made.child.kill = lambda: ended.append("killed")
    made.child.wait = lambda timeout_s: ended.append("waited for")
    made._seal.broken = lambda: None if before else LEFT_RUNNING

    def settled(within_s=None):
        if within_s is None:
            return not before
        assert ended == ["killed", "waited for"]
        return settles

    made._gpu.settles = settled
    with pytest.raises(error, match=words):
        made.round([0, 1], 10)


class Capturing:
    """A program that takes device memory in some of its calls, or none; counts how often its rounds are recorded."""

    def __init__(self, takes, counts=True):
        self.takes, self.counts, self.taken, self.captured = takes, counts, 0, 0

    def bind(self, places, scalars):
        def call():
            self.taken += self.takes(scalars)

        return call

    def allocations(self):
        return self.taken if self.counts else None

    def capture(self, calls):
        self.captured += 1
        return lambda: None


def prepared(program, sizes, payload=None):
    """How many rounds a runner recorded for workloads of these sizes, one after the other."""
    runner = CudaRunner(payload or {}, {"channel": socket.socketpair()[0].detach()})
    runner._program, runner._inputs, runner._outputs = program, 0, 0
    runner._driver = SimpleNamespace(synchronize=lambda: None)
    before = program.captured
    for size in sizes:
        layout = Layout("w", (size,), (), 0, 0, 4, sequences=((0, 1), (1, 0)))
        runner._prepare(json.dumps(layout.to_json()).encode())
    runner._channel.close()
    return program.captured - before


def test_rounds_of_a_program_that_takes_no_memory_are_recorded_once():
    assert prepared(Capturing(lambda scalars: 0), [1, 2, 1, 2]) == 4


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(Capturing(lambda scalars: 1), id="in every call"),
        pytest.param(Capturing(lambda scalars: scalars == (2,)), id="in calls of one workload"),
        pytest.param(Capturing(lambda scalars: 0, counts=False), id="nobody knows"),
    ],
)
def test_no_recording_is_run_again_that_may_point_to_memory_given_back(program):
    assert prepared(program, [1, 2, 1, 2]) == 8
    assert prepared(program, [1, 2, 1, 2], {"keeps": True}) == 4


def test_recordings_do_not_pile_up():
    program = Capturing(lambda scalars: 0)
    sizes = list(range(KEPT_RECORDINGS + 1))
    assert prepared(program, [*sizes, 0]) == 2 * (len(sizes) + 1)


def bound_to(pid):
    return os.sched_getaffinity(pid)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_round_is_played_on_one_core_and_the_judge_goes_back_to_the_others(opened):
    made, _ = opened
    core, everywhere = max(os.sched_getaffinity(0)), os.sched_getaffinity(0)
    seen = []
    with subprocess.Popen(["sleep", "60"]) as runner:
        made.child.pid, made._core = runner.pid, core
        made._exchange = SimpleNamespace(
            ask=lambda *words: seen.append((bound_to(0), bound_to(runner.pid))) or Answering().ask(*words)
        )
        made.round([0, 1], 10)
        assert seen == [({core}, {core})]
        assert bound_to(0) == bound_to(runner.pid) == everywhere
        runner.kill()


def test_rounds_on_several_devices_are_played_on_different_cores():
    cpu = SimpleNamespace(cores=tuple(range(8, 32)))
    cores = [core_for_rounds(cpu, SimpleNamespace(number=number)) for number in range(CORES_FOR_ROUNDS)]
    assert len(set(cores)) == CORES_FOR_ROUNDS
    assert not set(cores) & builder_cores(cpu)


def test_a_round_is_played_wherever_its_runner_is_if_that_cannot_be_bound(opened):
    made, _ = opened
    everywhere = os.sched_getaffinity(0)
    made.child.pid, made._core = 2**22 + 1, max(everywhere)
    assert made.round([0, 1], 10).slots == (0, 1)
    assert bound_to(0) == everywhere
