"""Rounds that are captured: brief ones for programs that are far slower than the baseline, and for nobody else."""

from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.build import BuiltProgram
from evaluators.calibration import WorkloadCalibration
from evaluators.cascade import Case, paced, timed_rounds
from evaluators.cuda.plan import device_plan
from evaluators.duel import measure_block
from evaluators.failure import OCCUPANT, CandidateFailure
from evaluators.pace import BRIEF_CALLS, LONG_ROUND_S, SLOW_FACTOR
from evaluators.rounds import PairedTimes
from evaluators.session import RoundTime
from evaluators.status import Status
from evaluators.task import Arg, Task, Workload
from evaluators.trail import Trail

BASELINE_US, EMPTY_ROUND_US = 60.0, 40.0
WORKLOAD = Workload(name="w", axes={"N": 1 << 20})
ARGS = tuple(Arg(name=n, role=r, dtype="fp32", shape=("N",)) for n, r in (("x", "in"), ("out", "out")))
NOWHERE = {"seed_program": "s", "folder": "/", "hash": "", "inputs_hash": ""}
TASK = Task(name="t", languages=("cuda",), entry="f", args=ARGS, workloads=(WORKLOAD,), **NOWHERE)
PLAN = device_plan(TASK, WORKLOAD, 60 << 20, 8 << 30, BASELINE_US / 1e6, np.random.default_rng(0))
EMPTY_US = {"cuda": EMPTY_ROUND_US / PLAN.calls}
CALIBRATION = WorkloadCalibration(PLAN, None, {"eager": BASELINE_US}, "eager", frozenset({"eager"}), EMPTY_US, 0.0)
PROGRAM = BuiltProgram("", "cuda", "0" * 64)


class Runner:
    """A program whose calls take so long, by how many there are in a round and how many rounds came before."""

    def __init__(self, takes_us):
        self.takes_us = takes_us if callable(takes_us) else lambda calls, rounds: takes_us
        self.rounds, self.layouts, self.taken_us = [], [], 0.0
        quiet = {"poison": lambda slots: None, "unwritten_among": lambda slots: []}
        self.guard = SimpleNamespace(**quiet)

    def prepare(self, layout, deadline_s):
        self.layout = layout
        self.layouts.append(layout)

    def round(self, slots, deadline_s):
        took_us = len(slots) * self.takes_us(len(slots), len(self.rounds)) + EMPTY_ROUND_US
        self.rounds.append(len(slots))
        self.taken_us += took_us
        nothing = np.empty(0), np.empty(0)
        return RoundTime(round(1000 * took_us), tuple(slots), nothing, nothing, 0.0)

    def in_turns(self, slots, deadline_s, lengths):
        yield self.round(slots, deadline_s)

    def inspect(self, time):
        pass

    @property
    def timed(self):
        """How many calls each round of several had."""
        return [calls for calls in self.rounds if calls > 1]


class Checker:
    ordinary_family = "plain"

    def __init__(self):
        self.checked = 0

    def surprise(self, workload, slots):
        return None

    def check(self, *arguments, **more):
        self.checked += 1


def bench(baseline):
    nothing = {"fill": lambda *arguments: None, "fill_slots": lambda *arguments: None}
    arena = SimpleNamespace(rng=np.random.default_rng(1), kept=lambda name, program: baseline, **nothing)
    return SimpleNamespace(task=TASK, baselines={"eager": PROGRAM}), arena


def case_of(takes_us):
    return Case(PROGRAM, Runner(takes_us), Checker(), Trail())


def timed(takes_us, count=10):
    """The candidate's and the baseline's runners after so many rounds, and the times."""
    case, baseline = case_of(takes_us), Runner(BASELINE_US)
    timed_rounds(*bench(baseline), case, CALIBRATION, "eager", count)
    return case, baseline, case.times["w"]["eager"]


@pytest.mark.parametrize("takes_us", [BASELINE_US / 2, BASELINE_US, 5 * BASELINE_US])
def test_a_program_of_the_baselines_kind_gets_the_rounds_that_were_planned(takes_us):
    case, baseline, times = timed(takes_us)
    assert case.session.timed == baseline.timed == [PLAN.calls] * 10
    assert times.ours == pytest.approx([takes_us] * 10, rel=0.01)


def test_a_program_a_hundred_times_slower_keeps_the_device_for_brief_rounds_only():
    case, baseline, times = timed(100 * BASELINE_US)
    assert case.session.timed == baseline.timed == [BRIEF_CALLS] * 10
    assert case.session.taken_us < 1e6
    assert np.median(times.log_ratios()) == pytest.approx(np.log(1 / 100), abs=0.01)
    assert all(layout.sequences == () or len(layout.sequences[0]) == BRIEF_CALLS for layout in case.session.layouts)


def test_brief_rounds_are_checked_as_much_as_others():
    slow, _, _ = timed(100 * BASELINE_US)
    fast, _, _ = timed(BASELINE_US)
    assert slow.checker.checked / sum(slow.session.timed) > fast.checker.checked / sum(fast.session.timed)


def test_being_slow_until_rounds_were_chosen_buys_nothing():
    """Slow when its pace is looked at, as fast as can be afterwards: every round that counts is a planned one."""
    case, baseline, times = timed(lambda calls, rounds: 100 * BASELINE_US if rounds < 4 else BASELINE_US / 2)
    assert case.session.timed == baseline.timed == [BRIEF_CALLS, *[PLAN.calls] * 10]
    assert len(times.ours) == len(times.waited) == len(times.unresolved) == 10


def test_a_program_that_is_fast_in_brief_rounds_alone_is_found_out_by_the_first_of_them():
    case, _, times = timed(lambda calls, rounds: 1.0 if calls == BRIEF_CALLS else 100 * BASELINE_US, count=3)
    assert case.session.timed == [BRIEF_CALLS, *[PLAN.calls] * 3]
    assert max(times.log_ratios()) < np.log(1 / SLOW_FACTOR)


def test_a_pace_is_looked_at_once_in_a_process():
    case, baseline = case_of(100 * BASELINE_US), Runner(BASELINE_US)
    for _ in range(3):
        timed_rounds(*bench(baseline), case, CALIBRATION, "eager", 2)
    assert sum(layout.sequences == () for layout in case.session.layouts) == 1


def test_what_is_attested_are_the_rounds_that_were_timed():
    case, _, _ = timed(100 * BASELINE_US)
    orders = paced(*bench(None), CALIBRATION, case).plan.layout.sequences
    assert [len(order) for order in orders] == [BRIEF_CALLS] * len(PLAN.layout.sequences)
    assert [order == whole[:BRIEF_CALLS] for order, whole in zip(orders, PLAN.layout.sequences, strict=True)]


def test_a_tiny_call_is_not_slow_for_what_its_launch_costs():
    """A call of 2 us that the host launches in 100: a round of 1024 of them is no long one."""
    plan = device_plan(TASK, WORKLOAD.model_copy(update={"axes": {"N": 1000}}), 60 << 20, 8 << 30, 2e-6, np.random)
    tiny = WorkloadCalibration(plan, None, {"eager": 2.0}, "eager", frozenset(), EMPTY_US, 0.0)
    assert paced(*bench(None), tiny, case_of(100.0)) is tiny
    assert 100.0 * plan.calls < 1e6 * LONG_ROUND_S


def duel(ours_us, theirs_us):
    times, pair = PairedTimes(), (case_of(ours_us), case_of(theirs_us))
    measure_block(*bench(None), CALIBRATION, pair, 5, times)
    return pair, times


def test_two_slow_programs_fight_in_brief_rounds():
    pair, times = duel(50 * BASELINE_US, 100 * BASELINE_US)
    assert [case.session.timed for case in pair] == [[BRIEF_CALLS] * 5] * 2
    assert times.log_ratios() == pytest.approx([np.log(2)] * 5, abs=0.01)


def test_two_programs_that_only_looked_slow_fight_in_whole_ones():
    def quick(calls, rounds):
        return 100 * BASELINE_US if calls == 1 else BASELINE_US

    pair, _ = duel(quick, quick)
    assert [case.session.timed for case in pair] == [[BRIEF_CALLS, *[PLAN.calls] * 5]] * 2


def test_an_occupant_that_fails_when_its_pace_is_looked_at_is_to_blame_itself():
    def fails(calls, rounds):
        raise CandidateFailure(Status.RUNTIME_ERROR, "no")

    with pytest.raises(CandidateFailure) as caught:
        duel(BASELINE_US, fails)
    assert caught.value.whose == OCCUPANT
