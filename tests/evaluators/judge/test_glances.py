"""A program far behind the best is known by few rounds, and its evaluation says how few in every interval."""

import pytest

from evaluators import looks, report
from evaluators.evaluation import FULL_LEVEL, Status
from evaluators.looks import FIRST_LOOK, GLANCE
from evaluators.scoring import GLANCE_ALPHA
from tests.evaluators.judge.conftest import DOUBLE_CPP


@pytest.mark.parametrize(("best", "rounds", "level"), [(1e9, GLANCE, 1 - GLANCE_ALPHA), (0.0, FIRST_LOOK, FULL_LEVEL)])
def test_all_intervals_of_an_evaluation_have_the_level_of_its_look(double_judge, monkeypatch, best, rounds, level):
    monkeypatch.setattr(double_judge, "_best_score", best)
    monkeypatch.setattr(looks, "MOST_ROUNDS", FIRST_LOOK)
    for module in (looks, report):  # however busy the machine
        monkeypatch.setattr(module, "NOISY_HALF_WIDTH", 1e9)
    monkeypatch.setattr(report, "crowded", lambda series: None)
    evaluation = double_judge.evaluate(DOUBLE_CPP, "cpp")
    assert evaluation.status is Status.PASSED, evaluation.message
    assert (evaluation.timing.rounds, evaluation.timing.speedup.level) == (rounds, level)
    (large,) = (w for w in evaluation.workloads if w.split == "search")
    assert large.call_us.level == large.ratios["plain"].level == level
    assert large.rounds == rounds
