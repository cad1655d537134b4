import math

import pytest

from evaluators.evaluation import DuelOutcome, Interval
from evaluators.plan import MAX_CALLS, MAX_POOL_BYTES, MIN_CALLS, round_plan
from evaluators.rounds import PairedTimes
from evaluators.scoring import combined_log_ratios, duel_outcome, normalised_weights, stray, too_short
from evaluators.task import Arg, Task, Workload

CACHE = 32 << 20


def task_of(elements):
    return Task(
        name="t",
        languages=("cpp",),
        entry="f",
        args=(
            Arg(name="x", role="in", dtype="fp32", shape=("N",)),
            Arg(name="out", role="out", dtype="fp32", shape=("N",)),
        ),
        workloads=(Workload(name="w", axes={"N": elements}),),
        seed_program="seed.cpp",
        folder="/",
        hash="",
        inputs_hash="",
    )


def plan_of(elements, **kwargs):
    task = task_of(elements)
    return round_plan(task, task.workloads[0], CACHE, **kwargs)


def test_rounds_are_cold_where_memory_allows():
    plan = plan_of(1 << 20)
    assert plan.cold
    assert plan.calls * plan.layout.input_stride * 2 >= 2 * CACHE
    assert plan.layout.slots == 2 * plan.calls


def test_tiny_workloads_are_capped_and_say_that_they_are_warm():
    plan = plan_of(16)
    assert plan.calls == MAX_CALLS
    assert not plan.cold


def test_huge_workloads_stay_within_the_memory_cap():
    plan = plan_of(1 << 27)
    assert plan.calls == 1
    assert plan_of(1 << 22).calls >= MIN_CALLS
    assert plan_of(1 << 24).layout.input_bytes <= MAX_POOL_BYTES


def test_a_slow_baseline_shortens_rounds_and_is_labelled():
    plan = plan_of(1 << 18, call_s=0.2)
    assert plan.calls == 1
    assert not plan.cold


def test_a_program_much_slower_than_the_baseline_is_called_less_often_a_round():
    plan = plan_of(1 << 20)
    assert plan.shortened(0.0001) == plan
    slow = plan.shortened(0.2)
    assert (slow.calls, slow.cold, slow.layout) == (3, False, plan.layout)
    assert plan.shortened(10).calls == 1


def test_the_combined_ratio_is_the_weighted_geometric_mean_round_by_round():
    weights = normalised_weights([Workload(name="a", axes={}, weight=3), Workload(name="b", axes={}, weight=1)])
    times = {
        "a": PairedTimes(ours=[1.0, 2.0], theirs=[2.0, 2.0]),
        "b": PairedTimes(ours=[1.0, 1.0], theirs=[4.0, 1.0]),
    }
    combined = combined_log_ratios(times, weights)
    assert combined == pytest.approx([0.75 * math.log(2) + 0.25 * math.log(4), 0.0])


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (1.001, 1.2, DuelOutcome.CHALLENGER),
        (0.8, 0.999, DuelOutcome.OCCUPANT),
        (0.995, 1.005, DuelOutcome.EQUAL),
        (0.95, 1.05, None),
    ],
)
def test_a_duel_is_decided_by_its_interval(low, high, outcome):
    interval = Interval(low=low, estimate=(low + high) / 2, high=high, level=0.99)
    assert duel_outcome(interval) is outcome


def test_an_unbounded_interval_decides_nothing():
    assert duel_outcome(None) is None


def test_programs_too_short_to_be_told_apart_have_no_score():
    long, short = PairedTimes(unresolved=[False] * 10), PairedTimes(unresolved=[True] * 6 + [False] * 4)
    assert too_short([long, short])
    assert not too_short([long, PairedTimes()])


def test_a_program_cannot_make_itself_look_disturbed():
    """Its own times may stray as they like; the opponent's, which runs while it is stopped, speak of the machine."""
    steady, unsteady = [100.0, 101.0, 99.0] * 5, [60.0, 100.0, 170.0] * 5
    assert stray([PairedTimes(ours=steady, theirs=unsteady)], 0.25)
    assert not stray([PairedTimes(ours=unsteady, theirs=steady)], 0.25)
    assert not stray([PairedTimes()], 0.25)
