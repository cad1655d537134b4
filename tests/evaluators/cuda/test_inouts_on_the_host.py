"""Arguments that are changed in place, in a GPU judge's own rounds: run on the host, with programs in NumPy."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators import rounds
from evaluators.calibration import WorkloadCalibration
from evaluators.cascade import Case, correctness, pace_us, smoke, warm_up
from evaluators.check_set import CheckSet
from evaluators.checker import Checker
from evaluators.cuda import device
from evaluators.cuda.device import DeviceBuffer, Gpu, bytes_at
from evaluators.cuda.guard import DeviceGuard
from evaluators.cuda.inouts import MOST_LEFT_ALONE, Inouts
from evaluators.cuda.plan import device_plan
from evaluators.cuda.session import LEFT_RUNNING, InputSeal
from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evaluators.failure import CandidateFailure
from evaluators.layout import plan
from evaluators.plan import layout_of
from evaluators.reference import load_reference
from evaluators.rounds import PairedTimes, Side, paired_round
from evaluators.surprise import Surprises
from evaluators.task import Workload
from evaluators.task_loading import load_task
from evaluators.tolerance import load_lock
from evaluators.trail import Trail
from tests.evaluators.cuda.host_arena import HostArena, MemoryDriver

DATA = Path(__file__).parents[2] / "data"
TASK, SORTING = (load_task(DATA / name) for name in ("residual_scale", "sort_rows"))
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

    def __init__(self, gpu, folder, task=SHORT, workload=WORKLOAD):
        self.gpu, self.workload = gpu, workload
        self.reference = replace(load_reference(task), task=task)
        self.lock = load_lock(load_task(task.folder))
        rng = np.random.default_rng(1)
        checks = CheckSet(self.reference, folder, rng)
        self.surprises = Surprises(self.reference, checks)
        self.plan = device_plan(task, workload, 1 << 16, 1 << 20, None, rng)
        self.arena = HostArena(gpu, task, [self.plan.layout])
        self.content = self.arena.content(self.reference, workload)
        self.bench = SimpleNamespace(task=task, reference=self.reference, checks=checks)
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
    for other in set(range(runner.layout.slots)) - set(runner.called):
        runner.views(other)["x"][0, 0] += 1


def changes_what_it_is_given(runner, slot, views):
    honest(runner, slot, views)
    views["y"][0, 0] += 1


def writes_beyond(runner, slot, views):
    honest(runner, slot, views)
    place = next(p for p in runner.layout.places if p.name == "x")
    at = runner.outputs.address + slot * runner.layout.output_stride + place.offset + place.nbytes
    device.ctypes.memset(at, 7, 1)


OUT_OF_WORK = {Status.WRONG_VALUES, Status.NONDETERMINISTIC}
"""The second where the one of two surprises that was left alone differs by the sign of a zero."""
CONVICTED = {
    skips_slots_it_has_seen: OUT_OF_WORK,
    skips_one_call_in_eight: OUT_OF_WORK,
    leaves_the_last_row: OUT_OF_WORK,
    keeps_answers: OUT_OF_WORK,
    goes_on_from_what_it_left: OUT_OF_WORK,
    works_ahead: {Status.CHEATING},
    changes_what_it_is_given: {Status.CHEATING},
    writes_beyond: {Status.RUNTIME_ERROR},
}


@pytest.mark.parametrize("seed", range(3))
def test_an_honest_program_passes_every_stage(table, seed):
    table.arena.rng = np.random.default_rng(seed)
    case = table.case(honest)
    smoke(table.bench, table.arena, case)
    correctness(table.bench, table.arena, case, SHORT.workloads, table.bench.checks)
    assert pace_us(table.bench, table.arena, table.calibration, case) > 0
    ours, theirs = table.side(honest), table.side(honest)
    for side in (ours, theirs):
        warm_up(side, table.calibration, table.arena)
    table.rounds(ours, theirs, 20)
    assert set(case.checker.errors) == {w.name for w in SHORT.workloads}


def test_a_task_without_inputs_is_judged_and_its_checks_keep_to_the_room_there_is(gpu, tmp_path, monkeypatch):
    """All that it has is changed in place; four families do not fit into the outputs at once."""

    def sorts(runner, slot, views):
        views["keys"].sort(axis=1)
        slots[runner.layout.workload] = max(runner.layout.slots, slots.get(runner.layout.workload, 0))

    def sorts_all_but_the_first(runner, slot, views):
        views["keys"][1:].sort(axis=1)

    slots = {}
    table = Table(gpu, tmp_path, SORTING, SORTING.search_workloads()[0])
    with monkeypatch.context() as patch:
        patch.setattr(table.arena, "_output_bytes", 3 * layout_of(SORTING, table.workload, 1).output_stride)
        correctness(table.bench, table.arena, table.case(sorts), SORTING.workloads, table.bench.checks)
    assert slots == {"many": 3, "short": 4}
    table.rounds(table.side(sorts), table.side(sorts), 3)
    with pytest.raises(CandidateFailure, match="keys"):
        table.rounds(table.side(sorts_all_but_the_first), table.side(sorts), 3)
    table.arena.close()


@pytest.mark.parametrize("program", CONVICTED, ids=lambda program: program.__name__)
def test_who_gets_out_of_work_or_out_of_bounds_is_found_in_rounds(table, program):
    opponent = table.side(honest)
    with pytest.raises(CandidateFailure) as caught:
        table.rounds(table.side(program), opponent, 20)
    assert caught.value.status in CONVICTED[program], caught.value.message


def test_one_call_left_out_of_dozens_is_found_at_once_although_one_is_compared(table, monkeypatch):
    monkeypatch.setattr(rounds, "MOST_CHECKED_CALLS", 1)
    table.plan = replace(table.plan, checked_calls=1)
    assert table.plan.calls > 30

    def leaves_one_out(runner, slot, views):
        if slot != runner.layout.sequences[0][0]:
            honest(runner, slot, views)

    times = PairedTimes()
    sides = table.side(leaves_one_out, surprised=False), table.side(honest, surprised=False)
    monkeypatch.setattr(rounds, "draw_slots", lambda plan, rng: list(plan.layout.sequences[0]))
    with pytest.raises(CandidateFailure) as caught:
        paired_round(*sides, table.plan, table.content, table.arena, times)
    assert caught.value.status is Status.WRONG_VALUES


def test_a_program_that_must_leave_most_alone_passes_and_one_that_does_not_fails(table):
    """As one that adds to a cache: every call has rows that stay as they were."""
    known = table.reference.module

    def oracle(inputs, rows=None):
        kept = np.asarray(inputs["x"]).astype(np.float64)
        kept[:20] = known.oracle(inputs)["x"][:20]
        return {"x": kept if rows is None else kept[rows]}

    def changes_a_few_rows(runner, slot, views):
        views["x"][:20] = np.float32(0.5) * views["x"][:20] + views["y"][:20]

    module = SimpleNamespace(generate=known.generate, oracle=oracle, scale=known.scale)
    table.reference = replace(table.reference, module=module)
    opponent = table.side(changes_a_few_rows, surprised=False)
    table.rounds(table.side(changes_a_few_rows, surprised=False), opponent, 5)
    with pytest.raises(CandidateFailure) as caught:
        table.rounds(table.side(honest, surprised=False), opponent, 5)
    assert caught.value.status is Status.WRONG_VALUES


def test_a_baseline_that_fails_is_no_candidates_fault(table):
    baseline = replace(table.side(works_ahead), checker=None)
    with pytest.raises(JudgeError, match="never called"):
        table.rounds(table.side(honest), baseline, 20)


def test_both_programs_find_the_same_and_never_what_they_found_before(table):
    found = {"ours": [], "theirs": []}

    def notes(calls):
        def program(runner, slot, views):
            calls.append((slot, views["x"].tobytes()))
            honest(runner, slot, views)

        return program

    ours, theirs = (table.side(notes(calls), surprised=False) for calls in found.values())
    for calls in found.values():
        calls.clear()
    table.rounds(ours, theirs, 4)
    assert sorted(found["ours"]) == sorted(found["theirs"])
    assert len({content for _, content in found["ours"]}) == len(found["ours"]) == 4 * table.plan.calls
    found["ours"].clear()
    ours.session.prepare(table.plan.layout, 5)
    assert found["ours"][0] == (0, bytes(4 * 3300))  # what an earlier round left is not what a program gets warm on


def test_nothing_of_what_one_process_was_given_lies_there_for_the_next(table):
    table.rounds(table.side(honest), table.side(honest), 2)
    seen = []

    def looks_around(runner, slot, views):
        seen.append(any(runner.views(other)["x"].any() for other in range(runner.layout.slots)))
        honest(runner, slot, views)

    session = table.arena.open(looks_around)
    session.prepare(table.plan.layout, 5)
    session.guard.poison([0])
    session.inspect(session.round([0], 5))
    assert len(seen) > 2
    assert not any(seen)


def test_inputs_that_changed_are_noticed_although_something_else_was_written(table):
    side = table.side(honest)
    table.arena.fill(side.session, table.content, list(table.plan.layout.sequences[0]))
    side.session.round([0], 5)
    table.gpu.upload(side.session.inputs.address, np.array([1], np.uint8))
    side.session.store(0, {"x": np.zeros((100, 33), np.float32)})
    with pytest.raises(CandidateFailure, match="changed its inputs"):
        side.session.round([0], 5)


def test_work_left_running_is_noticed_where_there_are_no_inputs(table, monkeypatch):
    seal = InputSeal(table.gpu, table.arena._device_inputs)
    seal.close_over(0)
    assert seal.broken() is None
    monkeypatch.setattr(table.gpu, "settles", lambda: False)
    assert seal.broken() == LEFT_RUNNING


ARGS = [
    ("a", "inout", "fp32", (70, 3)),
    ("b", "out", "fp32", (5,)),
    ("c", "inout", "u8", (13,)),
    ("d", "inout", "i64", ()),
]


@pytest.fixture
def copy(gpu):
    """A copy with random content, a runner's outputs with the same in them, and their layout."""
    layout = plan("w", (), [*ARGS, ("e", "inout", "fp16", (0, 4)), ("f", "in", "fp32", (9,))], 3)
    kept, outputs = Inouts(gpu, layout.output_bytes), DeviceBuffer(gpu, layout.output_bytes)
    content = np.random.default_rng(0).integers(0, 256, layout.output_bytes, dtype=np.uint8)
    gpu.upload(kept.address(layout, 0), content)
    guard = DeviceGuard(gpu, layout, outputs, np.random.default_rng(1))
    guard.arm()
    kept.restore(layout, outputs.address, [2, 0])
    assert guard.broken() is None
    assert guard.unwritten_among([0, 1, 2]) == [0, 1, 2]
    yield kept, outputs, layout
    kept.close()
    outputs.close()


def test_a_change_of_any_byte_of_a_slot_that_was_not_called_is_seen(gpu, copy):
    kept, outputs, layout = copy
    everywhere = np.arange(3)
    assert not kept.changed(layout, outputs.address, everywhere)
    inside = {
        slot * layout.output_stride + place.offset + at
        for slot in range(3)
        for place in layout.places
        if place.role == "inout"
        for at in range(place.nbytes)
    }
    for at in range(layout.output_bytes):
        before = bytes_at(gpu, outputs.address, np.array([at]))
        gpu.upload(outputs.address + at, before ^ 4)
        assert kept.changed(layout, outputs.address, everywhere) == (at in inside)
        assert kept.changed(layout, outputs.address, np.array([1])) == (
            at in inside and at // layout.output_stride == 1
        )
        gpu.upload(outputs.address + at, before)


def test_rows_that_stayed_as_they_were_are_named(gpu, copy):
    kept, outputs, layout = copy
    rng = np.random.default_rng(2)

    def write(slot, changed):
        for place, rows in changed.items():
            there = layout.places["abcd".index(place)]
            address = outputs.address + slot * layout.output_stride + there.offset
            values = bytes_at(gpu, address, np.arange(there.nbytes)).reshape(max((*there.shape, 1)[0], 1), -1)
            values[rows] ^= 1
            gpu.upload(address, values)

    everything = {"a": slice(None), "c": slice(None), "d": slice(None)}
    for slot in (0, 1, 2):
        write(slot, everything)
    assert kept.left_alone(layout, outputs.address, [0, 1, 2], rng) == []
    write(1, {"a": slice(60, 70)})
    named = {}
    for _ in range(20):
        for slot, rows in kept.left_alone(layout, outputs.address, [0, 1, 2], rng):
            named.setdefault(slot, set()).update(rows.tolist())
    assert set(named) == {1}
    assert named[1] <= set(range(59, 70)) | set(range(13))
    assert {62, 65, 68} <= named[1]
    write(0, {"d": slice(None)})
    assert 0 in {slot for slot, _ in kept.left_alone(layout, outputs.address, [0, 2], rng)}


def test_more_calls_left_alone_than_are_compared_are_drawn(gpu, copy):
    kept, outputs, layout = copy
    drawn = [{slot for slot, _ in kept.left_alone(layout, outputs.address, [0, 1, 2], rng)} for rng in RNGS]
    assert {len(slots) for slots in drawn} == {MOST_LEFT_ALONE}
    assert set.union(*drawn) == {0, 1, 2}


RNGS = [np.random.default_rng(seed) for seed in range(20)]


def test_a_session_without_the_copy_does_not_judge_such_a_task(gpu, table):
    session = table.side(honest).session
    session.inouts = Inouts(gpu, 0)
    with pytest.raises(RuntimeError, match="no room"):
        session.round([0], 5)
