"""How a duel goes about it: in turns, with new processes for every block, and no win from one pair of them."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators import duel
from evaluators.duel import FIRST_LOOK, LEAST_PAIRS, LOOK_EVERY, MOST_ROUNDS, run_duel
from evaluators.evaluation import DuelOutcome
from evaluators.plan import MOST_TURNS, RoundPlan, round_plan
from evaluators.rounds import Side, _take_turns
from evaluators.session import RoundTime
from evaluators.task import Arg, Task, Workload
from evaluators.trail import Trail

WORKLOAD = Workload(name="w", axes={"N": 1 << 16})
TASK = Task(
    name="t",
    languages=("cpp",),
    entry="f",
    args=(
        Arg(name="x", role="in", dtype="fp32", shape=("N",)),
        Arg(name="out", role="out", dtype="fp32", shape=("N",)),
    ),
    workloads=(WORKLOAD,),
    seed_program="seed.cpp",
    folder="/",
    hash="",
    inputs_hash="",
)


@pytest.fixture
def fought(monkeypatch):
    """A duel with a challenger that is so much faster in each of its processes, in turn; how it ended."""

    def fight(*gains):
        alive, started = [], []

        @contextmanager
        def start():
            assert not alive
            started.append(len(started))
            alive.append(True)
            yield "challenger", "occupant"
            alive.clear()

        def block(bench, arena, calibration, pair, count, times):
            assert alive
            gain = gains[min(len(started), len(gains)) - 1]
            times.ours += [1.0] * count
            times.theirs += [1.0 + gain + 1e-4 * k for k in range(count)]
            times.waited += [0.0] * count

        monkeypatch.setattr(duel, "measure_block", block)
        times, winners = {}, []

        def won(challenger):
            assert alive
            winners.append(challenger)

        ended = run_duel(SimpleNamespace(task=TASK), None, {"w": None}, start, Trail(), times, won=won)
        assert not alive
        assert winners == ["challenger"] * (ended.outcome is DuelOutcome.CHALLENGER)
        assert len(times["w"].ours) == ended.rounds
        return ended, len(started)

    return fight


def test_a_clear_win_takes_several_pairs_of_processes(fought):
    ended, pairs = fought(0.1)
    assert (ended.outcome, pairs) == (DuelOutcome.CHALLENGER, LEAST_PAIRS)
    assert ended.rounds == FIRST_LOOK + (LEAST_PAIRS - 1) * LOOK_EVERY


def test_a_clear_loss_takes_one(fought):
    ended, pairs = fought(-0.1)
    assert (ended.outcome, ended.rounds, pairs) == (DuelOutcome.OCCUPANT, FIRST_LOOK, 1)


def test_a_process_that_happens_to_be_faster_wins_nothing(fought):
    """The first pair makes the challenger look 5 % faster, all others show what it is."""
    ended, pairs = fought(0.05, -0.05)
    assert ended.outcome is DuelOutcome.UNDECIDED
    assert pairs > 1
    assert ended.ratio.low < 1


def test_no_duel_is_longer_than_it_may_be(fought):
    ended, _ = fought(0.02, -0.02, 0.02, -0.02, 0.02)
    assert ended.rounds <= MOST_ROUNDS


class Timer:
    """A session on a machine that becomes slower with every turn that anybody takes."""

    clock = 0

    def __init__(self, log, name):
        self.log, self.name = log, name

    def in_turns(self, slots, deadline, lengths):
        total = 0
        for index, length in enumerate(lengths):
            self.log.append(self.name)
            total += length * (1000 + 100 * len(self.log))
            if index < len(lengths) - 1:
                yield None
        nothing = (np.empty(0), np.empty(0))
        yield RoundTime(total, tuple(slots), nothing, nothing, 0.0)


def test_a_machine_that_becomes_slower_meets_both_alike():
    log = []
    pair = tuple(Side(Timer(log, name), 0.0, 1.0, None) for name in "ab")
    plan = RoundPlan(WORKLOAD, None, 64, cold=True, turns=16)
    times = _take_turns(pair, plan, list(range(64)))
    assert "".join(log) == "abba" * 8
    assert times[id(pair[0])].total_ns == times[id(pair[1])].total_ns


class Caller:
    """A session that notes which slots are called in each turn that anybody takes."""

    def __init__(self, log):
        self.log = log

    def in_turns(self, slots, deadline, lengths):
        starts = np.cumsum([0, *lengths[:-1]])
        for index, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            self.log.append(set(slots[start : start + length]))
            if index < len(lengths) - 1:
                yield None
        nothing = (np.empty(0), np.empty(0))
        yield RoundTime(1, tuple(slots), nothing, nothing, 0.0)


@pytest.mark.parametrize("calls", [64, 61, 16])
def test_nobody_calls_what_lies_in_the_cache_since_somebody_called_it(calls):
    log = []
    pair = tuple(Side(Caller(log), 0.0, 1.0, None) for _ in "ab")
    times = _take_turns(pair, RoundPlan(WORKLOAD, None, calls, cold=True, turns=16), list(range(calls)))
    for turn, slots in enumerate(log):
        assert not slots & set().union(*log[max(turn - 12, 0) : turn])
    assert sorted(times[id(pair[0])].slots) == sorted(times[id(pair[1])].slots) == list(range(calls))


def test_one_block_after_the_other_does_not():
    log = []
    pair = tuple(Side(Timer(log, name), 0.0, 1.0, None) for name in "ab")
    times = _take_turns(pair, RoundPlan(WORKLOAD, None, 64, cold=True), list(range(64)))
    assert log == ["a", "b"]
    assert times[id(pair[0])].total_ns < times[id(pair[1])].total_ns


@pytest.mark.parametrize("calls", [1, 2, 15, 16, 17, 256])
@pytest.mark.parametrize("call_s", [None, 1e-6, 1e-5, 1e-3, 1.0])
def test_turns_share_all_calls_as_equally_as_can_be(calls, call_s):
    lengths = round_plan(TASK, WORKLOAD, 32 << 20, call_s).turn_lengths(calls)
    assert sum(lengths) == calls
    assert len(lengths) <= MOST_TURNS
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= 1


def test_turns_are_not_so_short_that_waking_up_counts():
    assert round_plan(TASK, WORKLOAD, 32 << 20, 1e-6).turns == 1
    assert round_plan(TASK, WORKLOAD, 32 << 20, 1e-3).turns == MOST_TURNS
