"""How many rounds a program gets: few where it is far behind, all of them where it may be good or nothing is known."""

from types import SimpleNamespace

import pytest

from evaluators import looks
from evaluators.build import BuiltProgram
from evaluators.cascade import Case
from evaluators.evaluation import FULL_LEVEL
from evaluators.looks import FIRST_LOOK, GLANCE, MOST_ROUNDS, Looks
from evaluators.rounds import PairedTimes
from evaluators.scoring import ALPHA, GLANCE_ALPHA, alpha_of
from evaluators.trail import Trail

BEST = 1.0


@pytest.fixture
def measured(monkeypatch):
    """Measures a program whose ratios by workload and round are these, the last one for good."""

    def timed_rounds(bench, arena, case, calibration, opponent, block):
        times = case.times.setdefault(calibration.name, {}).setdefault(opponent, PairedTimes())
        for done in range(1, block.count + 1):
            ratios = calibration.ratios
            times.ours.append(1 / ratios[min(len(times.ours), len(ratios) - 1)])
            times.theirs.append(1.0)
            if block.enough(done):
                break
        case.blocks.append(calibration.name)

    monkeypatch.setattr(looks, "timed_rounds", timed_rounds)

    def measure(best, weights=None, **ratios):
        case = Case(BuiltProgram("", "cpp", "0" * 64), None, None, Trail())
        case.blocks = []
        calibrations = {
            name: SimpleNamespace(name=name, ratios=values, strongest="plain" if values else None)
            for name, values in ratios.items()
        }
        shares = weights or dict.fromkeys(ratios, 1 / len(ratios))
        interval = Looks(None, None, calibrations, shares).speedup(case, best)
        rounds = {name: len(times["plain"].ours) for name, times in case.times.items()}
        return interval, rounds, case.blocks

    return measure


def test_levels_are_what_they_are_called():
    assert 1 - ALPHA == FULL_LEVEL
    assert (GLANCE, FIRST_LOOK) == (5, 10)
    assert alpha_of(None) == ALPHA


def test_a_program_far_behind_gets_few_rounds_and_the_interval_says_so(measured):
    interval, rounds, _ = measured(BEST, a=[0.5, 0.55, 0.52], b=[0.6])
    assert rounds == {"a": GLANCE, "b": GLANCE}
    assert interval.level == 1 - GLANCE_ALPHA
    assert interval.glance
    assert alpha_of(interval) == GLANCE_ALPHA
    assert interval.low == pytest.approx((0.5 * 0.6) ** 0.5)
    assert interval.high == pytest.approx((0.55 * 0.6) ** 0.5)


@pytest.mark.parametrize("ratio", [0.85, 1.0, 1.3])
def test_one_near_the_best_or_better_gets_the_whole_look_without_a_pause_in_it(measured, ratio):
    interval, rounds, blocks = measured(BEST, a=[ratio], b=[ratio])
    assert rounds == {"a": FIRST_LOOK, "b": FIRST_LOOK}
    assert (interval.level, interval.glance) == (FULL_LEVEL, False)
    assert blocks == ["a", "b"]


def test_where_nothing_is_known_yet_nothing_is_far_behind(measured):
    interval, rounds, _ = measured(0.0, a=[0.01], b=[0.02])
    assert rounds == {"a": FIRST_LOOK, "b": FIRST_LOOK}
    assert interval.level == FULL_LEVEL


def test_early_rounds_that_stray_drop_nobody(measured):
    """Four of five look like a hopeless program's."""
    interval, rounds, _ = measured(BEST, a=[0.5, 0.55, 1.0, 0.5, 0.52, 1.0], b=[1.0])
    assert min(rounds.values()) >= FIRST_LOOK
    assert interval.level == FULL_LEVEL
    assert interval.high >= BEST


def test_a_program_that_is_good_on_another_workload_gets_the_whole_look_on_both(measured):
    interval, rounds, blocks = measured(BEST, a=[0.5], b=[2.0])
    assert rounds == {"a": FIRST_LOOK, "b": FIRST_LOOK}
    assert blocks == ["a", "b", "a"]
    assert interval.estimate == pytest.approx(1.0)


def test_a_glance_that_is_no_measurement_decides_nothing(measured):
    interval, rounds, _ = measured(BEST, a=[0.2, 0.7, 0.3, 0.25, 0.6])
    assert rounds["a"] == FIRST_LOOK
    assert interval.level == FULL_LEVEL


def test_rounds_that_stray_are_added_to_until_there_are_as_many_as_there_may_be(measured):
    interval, rounds, _ = measured(BEST, a=[1.0, 1.3] * MOST_ROUNDS)
    assert rounds["a"] == MOST_ROUNDS
    assert interval.level == FULL_LEVEL


def test_workloads_that_weigh_nothing_are_looked_at_too(measured):
    interval, rounds, _ = measured(BEST, weights={"a": 0.0, "b": 1.0}, a=[0.5], b=[0.6])
    assert rounds == {"a": GLANCE, "b": GLANCE}
    assert interval.estimate == pytest.approx(0.6)


def test_without_a_baseline_on_one_workload_there_is_no_speed_up(measured):
    interval, _, _ = measured(BEST, a=[0.5], b=[])
    assert interval is None
