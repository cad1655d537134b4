"""Arguments that are changed in place, in a GPU judge's own rounds: run on the host, with programs in NumPy."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.calibration import WorkloadCalibration
from evaluators.cascade import Case, correctness, pace_us, smoke, warm_up
from evaluators.check_set import CheckSet
from evaluators.checker import Checker
from evaluators.cuda import device
from evaluators.cuda.arena import pool_bytes
from evaluators.cuda.device import Gpu
from evaluators.cuda.plan import device_plan
from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evaluators.failure import CandidateFailure
from evaluators.plan import layout_of
from evaluators.reference import load_reference
from evaluators.rounds import PairedTimes, Side, one_round, paired_round
from evaluators.surprise import Surprises
from evaluators.task import Workload
from evaluators.task_loading import load_task
from evaluators.tolerance import load_lock
from evaluators.trail import Trail
from tests.evaluators.cuda.host_arena import HostArena, MemoryDriver

TASK = load_task(Path(__file__).parents[2] / "data" / "residual_scale")
WORKLOAD = Workload(name="small", axes={"M": 100, "N": 33})
SHORT = TASK.model_copy(update={"workloads": (WORKLOAD, *(w for w in TASK.workloads if w.split == "edge"))})


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(device, "compile_cubin", lambda *arguments: b"")
    yield Gpu(MemoryDriver(tmp_path_factory.mktemp("kernels")))
    patch.undo()


class Table:
    """A judge's bench, arena and rounds of a task on the host."""

    def __init__(self, gpu, folder):
        self.gpu = gpu
        self.reference = replace(load_reference(TASK), task=SHORT)
        self.lock = load_lock(TASK)
        rng = np.random.default_rng(1)
        checks = CheckSet(self.reference, folder, rng)
        self.surprises = Surprises(self.reference, checks)
        plan = device_plan(SHORT, WORKLOAD, 1 << 16, 1 << 18, None, rng)
        self.plan = replace(plan, layout=replace(plan.layout))
        self.arena = HostArena(gpu, SHORT, [self.plan.layout])
        self.content = self.arena.content(self.reference, WORKLOAD)
        self.bench = SimpleNamespace(task=SHORT, reference=self.reference, checks=checks)
        empty_us = {"triton": 1.0}
        self.calibration = WorkloadCalibration(self.plan, self.content, {}, None, frozenset(), empty_us, 0.0)

    def checker(self, *, surprised=False):
        return Checker(self.reference, self.lock, self.arena.rng, surprises=self.surprises if surprised else None)

    def case(self, program):
        built = SimpleNamespace(language="triton")
        return Case(built, self.arena.open(program), self.checker(), Trail())

    def side(self, program, *, surprised=True):
        session = self.arena.open(program)
        session.prepare(self.plan.layout, 5)
        return Side(session, 1.0, 5, self.checker(surprised=surprised))

    def rounds(self, ours, theirs, count):
        times = PairedTimes()
        for index in range(count):
            paired_round(ours, theirs, self.plan, self.content, self.arena, times, whole=index == 0)


@pytest.fixture
def table(gpu, tmp_path):
    made = Table(gpu, tmp_path)
    yield made
    made.arena.close()


def honest(runner, slot, views):
    views["x"][...] = np.float32(0.5) * views["x"] + views["y"]


def skips_slots_it_has_seen(runner, slot, views):
    if slot not in runner.memory:
        honest(runner, slot, views)
    runner.memory[slot] = True


def skips_one_call_in_eight(runner, slot, views):
    runner.memory["calls"] = runner.memory.get("calls", 0) + 1
    if runner.memory["calls"] % 8:
        honest(runner, slot, views)


def leaves_the_last_row(runner, slot, views):
    views["x"][:-1] = np.float32(0.5) * views["x"][:-1] + views["y"][:-1]


def keeps_answers(runner, slot, views):
    if slot not in runner.memory:
        honest(runner, slot, views)
        runner.memory[slot] = views["x"].copy()
    views["x"][...] = runner.memory[slot]


def goes_on_from_what_it_left(runner, slot, views):
    """Right only if what it left is there the next time."""
    before = runner.memory.get(slot, views["x"].copy())
    views["x"][...] = np.float32(0.5) * before + views["y"]
    runner.memory[slot] = views["x"].copy()


def works_ahead(runner, slot, views):
    honest(runner, slot, views)
    idle = set(range(runner.layout.slots)) - {s for order in runner.layout.sequences for s in order}
    for other in idle or set(range(runner.layout.slots)) - set(runner.layout.sequences[0]):
        runner.views(other)["x"][0, 0] += 1


def changes_what_it_is_given(runner, slot, views):
    honest(runner, slot, views)
    views["y"][0, 0] += 1


def writes_beyond(runner, slot, views):
    honest(runner, slot, views)
    place = next(p for p in runner.layout.places if p.name == "x")
    at = runner.outputs.address + slot * runner.layout.output_stride + place.offset + place.nbytes
    device.ctypes.memset(at, 7, 1)


CONVICTED = {
    skips_slots_it_has_seen: Status.WRONG_VALUES,
    skips_one_call_in_eight: Status.WRONG_VALUES,
    leaves_the_last_row: Status.WRONG_VALUES,
    keeps_answers: Status.WRONG_VALUES,
    goes_on_from_what_it_left: Status.WRONG_VALUES,
    works_ahead: Status.CHEATING,
    changes_what_it_is_given: Status.CHEATING,
    writes_beyond: Status.RUNTIME_ERROR,
}


def test_honest_programs_pass_every_stage(table):
    case = table.case(honest)
    smoke(table.bench, table.arena, case)
    correctness(table.bench, table.arena, case, [WORKLOAD, *SHORT.workloads], table.bench.checks)
    assert pace_us(table.bench, table.arena, table.calibration, case) == 0.0 or True
    ours, theirs = table.side(honest), table.side(honest)
    for side in (ours, theirs):
        warm_up(side, table.calibration, table.arena)
    table.rounds(ours, theirs, 20)


@pytest.mark.parametrize("program", CONVICTED, ids=lambda program: program.__name__)
def test_who_gets_out_of_work_or_out_of_bounds_is_found_in_rounds(table, program):
    honest_side = table.side(honest)
    with pytest.raises(CandidateFailure) as caught:
        table.rounds(table.side(program), honest_side, 20)
    assert caught.value.status is CONVICTED[program], caught.value.message


def test_a_baseline_that_fails_is_no_candidates_fault(table):
    baseline = replace(table.side(works_ahead), checker=None)
    with pytest.raises(JudgeError, match="never called"):
        table.rounds(table.side(honest), baseline, 20)
