"""What a judgement used up is booked, whoever asked for it."""

from evaluators.evaluation import Status
from tests.evaluators.judge.conftest import DOUBLE_CPP


def test_a_duel_books_the_device_for_all_of_its_rounds(double_judge):
    cost = double_judge.duel((DOUBLE_CPP, "cpp"), (DOUBLE_CPP, "cpp")).cost
    assert 0 < cost.timed_s < cost.device_s <= cost.wall_s


def test_of_an_evaluation_the_timed_rounds_are_a_part(double_judge):
    evaluation = double_judge.evaluate(DOUBLE_CPP, "cpp")
    assert evaluation.status is Status.PASSED
    assert 0 < evaluation.cost.timed_s < evaluation.cost.device_s


def test_a_program_that_fails_before_its_rounds_has_none(double_judge):
    evaluation = double_judge.evaluate(DOUBLE_CPP.replace("{", "{ __builtin_trap();", 1), "cpp")
    assert evaluation.status is not Status.PASSED
    assert evaluation.cost.timed_s == 0
    assert evaluation.cost.device_s > 0
