"""Rounds that are captured: brief ones for programs that are far slower than the baseline, and for nobody else."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.build import BuiltProgram
from evaluators.calibration import WorkloadCalibration
from evaluators.cascade import Block, Case, paced, paced_alone, timed_rounds
from evaluators.cuda.attesting import _as_timed
from evaluators.cuda.plan import device_plan
from evaluators.duel import measure_block
from evaluators.failure import OCCUPANT, CandidateFailure
from evaluators.pace import BRIEF_CALLS, KEPT_PROGRAMS, LONG_ROUND_S, SLOW_FACTOR, SeenPaces, brief_calls, too_long
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

    def __init__(self, takes_us, empty_round_us=EMPTY_ROUND_US, captured=True):
        self.empty_round_us, self.captured = empty_round_us, captured
        self.takes_us = takes_us if callable(takes_us) else lambda calls, rounds: takes_us
        self.rounds, self.layouts, self.taken_us = [], [], 0.0
        quiet = {"poison": lambda slots: None, "unwritten_among": lambda slots: []}
        self.guard = SimpleNamespace(**quiet)

    def prepare(self, layout, deadline_s):
        self.layout = layout
        self.layouts.append(layout)

    def round(self, slots, deadline_s):
        took_us = len(slots) * self.takes_us(len(slots), len(self.rounds)) + self.empty_round_us
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
    surprises = None

    def __init__(self):
        self.checked = 0

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
    timed_rounds(*bench(baseline), case, CALIBRATION, "eager", Block(count))
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
    case, baseline, times = timed(lambda calls, rounds: 100 * BASELINE_US if rounds < 2 else BASELINE_US / 2)
    assert case.session.timed == baseline.timed == [BRIEF_CALLS, *[PLAN.calls] * 10]
    assert len(times.ours) == len(times.waited) == len(times.unresolved) == 10


def test_a_program_that_is_fast_in_brief_rounds_alone_is_found_out_by_the_first_of_them():
    case, _, times = timed(lambda calls, rounds: 1.0 if calls == BRIEF_CALLS else 100 * BASELINE_US, count=3)
    assert case.session.timed == [BRIEF_CALLS, *[PLAN.calls] * 3]
    assert max(times.log_ratios()) < np.log(1 / SLOW_FACTOR)


@pytest.mark.parametrize("takes_us", [BASELINE_US, 100 * BASELINE_US])
def test_a_block_ends_once_that_is_enough_and_goes_on_later(takes_us):
    case, baseline = case_of(takes_us), Runner(BASELINE_US)
    for block in (Block(10, enough=lambda done: done == 4), Block(3)):
        timed_rounds(*bench(baseline), case, CALIBRATION, "eager", block)
    assert len(case.times["w"]["eager"].ours) == len(case.session.timed) == 7


def test_a_pace_is_looked_at_once_in_a_process():
    case, baseline = case_of(100 * BASELINE_US), Runner(BASELINE_US)
    for _ in range(3):
        timed_rounds(*bench(baseline), case, CALIBRATION, "eager", Block(2))
    assert sum(layout.sequences == () for layout in case.session.layouts) == 1


def test_a_program_whose_calls_were_quick_in_checks_is_not_looked_at_again():
    for seen_us, looks in ((BASELINE_US, 0), (100 * BASELINE_US, 1)):
        case = case_of(BASELINE_US)
        case.seen_us["w"] = seen_us
        timed_rounds(*bench(Runner(BASELINE_US)), case, CALIBRATION, "eager", Block(2))
        assert sum(layout.sequences == () for layout in case.session.layouts) == looks


def test_being_quick_in_checks_alone_buys_nothing():
    """It gets the rounds of the others, in which it is as slow as it is."""
    case = case_of(100 * BASELINE_US)
    case.seen_us["w"] = BASELINE_US
    timed_rounds(*bench(Runner(BASELINE_US)), case, CALIBRATION, "eager", Block(3))
    assert case.session.timed == [PLAN.calls] * 3
    assert case.times["w"]["eager"].log_ratios() == pytest.approx([np.log(1 / 100)] * 3, abs=0.01)


@pytest.mark.parametrize(("captured", "rounds"), [(True, []), (False, [1])])
def test_only_a_program_whose_orders_have_been_run_needs_no_warming(captured, rounds):
    case = Case(PROGRAM, Runner(BASELINE_US, captured=captured), Checker(), Trail())
    case.seen_us["w"] = BASELINE_US
    timed_rounds(*bench(Runner(BASELINE_US)), case, CALIBRATION, "eager", Block(2))
    assert [calls for calls in case.session.rounds if calls == 1] == rounds


def test_what_was_seen_of_a_program_is_known_of_its_next_process():
    paces = SeenPaces()
    paces.of("a")["w"] = 5.0
    assert (paces.of("a"), paces.of("b")) == ({"w": 5.0}, {})
    for number in range(KEPT_PROGRAMS):
        paces.of(str(number))
    assert paces.of("a") == {}


def test_a_baseline_that_is_held_up_makes_no_brief_round_count():
    """Fast in brief rounds itself, beside a baseline that is slow in them."""
    case = case_of(lambda calls, rounds: 100 * BASELINE_US if calls == 1 else BASELINE_US)
    baseline = Runner(lambda calls, rounds: 100 * BASELINE_US if calls == BRIEF_CALLS else BASELINE_US)
    timed_rounds(*bench(baseline), case, CALIBRATION, "eager", Block(5))
    assert case.session.timed == [BRIEF_CALLS, *[PLAN.calls] * 5]
    assert case.times["w"]["eager"].log_ratios() == pytest.approx([0.0] * 5, abs=0.01)


TINY_US, TINY_EMPTY_US = 2.24, 300.0
"""A call far shorter than an empty round."""


def tiny_calibration():
    small = WORKLOAD.model_copy(update={"axes": {"N": 1000}})
    plan = device_plan(TASK, small, 60 << 20, 8 << 30, TINY_US / 1e6, np.random.default_rng(0))
    empty_us = {"cuda": TINY_EMPTY_US / plan.calls}
    return WorkloadCalibration(plan, None, {"eager": TINY_US}, "eager", frozenset({"eager"}), empty_us, 0.0)


def timed_beside_a_tiny_one(takes_us):
    calibration, case = tiny_calibration(), Case(PROGRAM, Runner(takes_us, TINY_EMPTY_US), Checker(), Trail())
    timed_rounds(*bench(Runner(TINY_US, TINY_EMPTY_US)), case, calibration, "eager", Block(5))
    return case.session.timed, case.times["w"]["eager"], calibration.plan.calls


def test_brief_rounds_of_short_calls_are_long_enough_to_tell_what_a_call_takes():
    rounds, times, planned = timed_beside_a_tiny_one(400.0)
    assert max(rounds) < planned / 4
    assert times.log_ratios() == pytest.approx([np.log(TINY_US / 400.0)] * 5, abs=0.01)


def test_beside_short_calls_too_a_program_that_only_looked_slow_gets_whole_rounds():
    rounds, times, planned = timed_beside_a_tiny_one(lambda calls, rounds: 400.0 if calls == 1 else TINY_US)
    assert rounds[1:] == [planned] * 5
    assert rounds[0] < planned
    assert times.log_ratios() == pytest.approx([0.0] * 5, abs=0.01)


def test_where_a_brief_round_would_have_all_calls_there_is_none():
    tiny = tiny_calibration()
    long = replace(tiny, empty_us={"cuda": 10.0})  # a channel slower than the calls
    assert brief_calls(long) > tiny.plan.calls
    assert too_long(tiny, 400.0)
    assert not too_long(long, 400.0)


def planned_or_brief(case):
    chosen = _as_timed(*bench(None), case, CALIBRATION)
    return "planned" if chosen is CALIBRATION else len(chosen.plan.layout.sequences[0])


def test_a_winner_is_attested_in_the_rounds_in_which_it_won():
    """However slow it is in the process that is attested."""
    won, slow = case_of(100 * BASELINE_US), case_of(100 * BASELINE_US)
    won.fought = {"w": duel(BASELINE_US, BASELINE_US)[1]}
    slow.fought = {"w": duel(100 * BASELINE_US, 200 * BASELINE_US)[1]}
    assert (planned_or_brief(won), planned_or_brief(slow)) == ("planned", BRIEF_CALLS)


def test_a_program_of_which_nothing_was_timed_is_attested_in_planned_rounds():
    assert planned_or_brief(case_of(100 * BASELINE_US)) == "planned"


def test_a_program_that_was_timed_in_planned_rounds_is_attested_in_them_though_it_slows_down():
    case, _, _ = timed(BASELINE_US)
    case.pace_us.clear()
    case.session.takes_us = lambda calls, rounds: 100 * BASELINE_US
    assert planned_or_brief(case) == "planned"


@pytest.mark.parametrize(("takes_us", "calls"), [(lambda calls, rounds: 6000.0, BRIEF_CALLS), (None, PLAN.calls)])
def test_a_program_that_is_profiled_gets_brief_rounds_where_it_is_slow_in_them_too(takes_us, calls):
    case = case_of(takes_us or (lambda calls, rounds: 6000.0 if calls == 1 else BASELINE_US))
    chosen = paced_alone(*bench(None), CALIBRATION, case)
    assert len(chosen.plan.layout.sequences[0]) == calls


def test_what_is_attested_are_the_rounds_that_were_timed():
    case, _, _ = timed(100 * BASELINE_US)
    orders = _as_timed(*bench(None), case, CALIBRATION).plan.layout.sequences
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
