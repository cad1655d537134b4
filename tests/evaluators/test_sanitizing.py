"""The sanitizer over a program that is confirmed: one tool at a time, each on its way while rounds are timed."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.build import BuiltProgram
from evaluators.cuda.inspection import Report, ToolUnavailable
from evaluators.cuda.sanitizing import Sanitizing
from evaluators.evaluation import Stage, Status
from evaluators.failure import CandidateFailure
from evaluators.task_loading import load_task
from evaluators.trail import Trail

TASK = load_task(Path(__file__).parents[2] / "tasks" / "softmax")
FINE = "========= ERROR SUMMARY: 0 errors\n"
BEYOND = "========= Invalid __global__ read of size 4 bytes\n=========     at k()\n=========\n"
WRONG = f"{BEYOND}========= ERROR SUMMARY: 1 error\n"
RACES = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
QUIET, TOUCHED = frozenset({"/dev/null"}), frozenset({"/dev/nvidiactl"})


class Box:
    """Tools that say what they are told to; the log is what a device would see of them."""

    def __init__(self, reports, devices=QUIET):
        self._reports, self._devices = list(reports), devices
        self.running, self.log = set(), []

    def run(self, tool, program, task, examples):
        self.log.append("planted")
        return Report(WRONG, "", 1, self._devices)

    def start(self, tool, program, task, examples):
        assert not self.running, "two tools at once on one device"
        name = tool[tool.index("--tool") + 1]
        self.running.add(name)
        self.log.append(f"{name} starts")
        return SimpleNamespace(report=lambda: self._report(name), close=lambda: self.running.discard(name))

    def _report(self, name):
        self.log.append(f"{name} runs on the device")
        return Report(self._reports.pop(0), "", 0, self._devices)


def bench():
    checks = SimpleNamespace(case=lambda workload, family: SimpleNamespace(inputs={"x": np.ones(4, np.float32)}))
    builds = SimpleNamespace(build=lambda *_: BuiltProgram("", "cuda", "0" * 64))
    return SimpleNamespace(task=TASK, checks=checks, builds=builds, reference=SimpleNamespace(families=["ordinary"]))


def case():
    trail = Trail()
    trail.enter(Stage.CONFIRMATION)
    return SimpleNamespace(attestation=None, trail=trail)


def confirmed(sanitizing, box):
    """A confirmation that passes; the log with what it does itself."""
    one = case()
    tools = sanitizing.begin(bench(), BuiltProgram("", "cuda", "1" * 64))
    box.log.append("rounds")
    tools.memory()
    box.log.append("held-out rounds")
    tools.races(one)
    tools.close()
    assert not box.running
    return one


def test_each_tool_starts_while_rounds_are_timed_and_has_the_device_after_them():
    box = Box([FINE, RACES])
    one = confirmed(Sanitizing(box, apart=True), box)
    assert box.log == [
        *("planted", "memcheck starts", "rounds", "memcheck runs on the device"),
        *("racecheck starts", "held-out rounds", "racecheck runs on the device"),
    ]
    assert (one.attestation.memory_errors, one.attestation.race_hazards, one.attestation.missing) == (0, 0, "")
    assert one.trail.stage is Stage.CONFIRMATION


@pytest.mark.parametrize(("apart", "devices"), [(False, QUIET), (True, TOUCHED), (True, None)])
def test_none_starts_beside_rounds_without_cores_of_its_own_or_where_it_has_the_device_open(apart, devices):
    box = Box([FINE, RACES], devices)
    confirmed(Sanitizing(box, apart=apart), box)
    assert box.log == [
        *("planted", "rounds", "memcheck starts", "memcheck runs on the device", "held-out rounds"),
        *("racecheck starts", "racecheck runs on the device"),
    ]


def test_an_access_beyond_a_buffer_ends_the_confirmation_and_every_tool():
    box = Box([WRONG])
    tools = Sanitizing(box, apart=True).begin(bench(), BuiltProgram("", "cuda", "1" * 64))
    with pytest.raises(CandidateFailure, match="memcheck: Invalid __global__ read") as failure:
        tools.memory()
    assert failure.value.status is Status.RUNTIME_ERROR
    tools.close()
    assert not box.running
    assert "racecheck starts" not in box.log


def test_a_program_that_fails_in_its_rounds_ends_the_tool_that_waits():
    box = Box([])
    tools = Sanitizing(box, apart=True).begin(bench(), BuiltProgram("", "cuda", "1" * 64))
    assert box.running == {"memcheck"}
    tools.close()
    assert not box.running


@pytest.mark.parametrize("reports", [["hung"], [FINE, "hung"]])
def test_a_tool_that_comes_to_no_end_is_said_to_be_missing_and_nothing_else_is_concluded(reports):
    box = Box(reports)
    one = confirmed(Sanitizing(box, apart=True), box)
    assert one.attestation.missing == "compute-sanitizer: compute-sanitizer did not end: it wrote nothing"
    assert one.attestation.memory_errors is None
    assert sum("runs on the device" in row for row in box.log) == len(reports)


def test_where_there_is_no_sanitizer_it_is_looked_for_once():
    box = Box([])

    def run(*_):
        box.log.append("looked for")
        raise ToolUnavailable("no compute-sanitizer found")

    box.run = run
    sanitizing = Sanitizing(box, apart=True)
    for _ in range(2):
        assert "no compute-sanitizer found" in confirmed(sanitizing, box).attestation.missing
    assert box.log.count("looked for") == 1
