import pytest
from pydantic import ValidationError

from evaluators.evaluation import (
    Environment,
    Evaluation,
    Interval,
    Stage,
    Status,
    Timed,
    Untimed,
    WorkloadResult,
)

SPEEDUP = Interval(low=1.0, estimate=1.1, high=1.2, level=0.99)
TIMED = Timed(speedup=SPEEDUP, cold=True, rounds=10)


def evaluation(**fields):
    base = {
        "status": Status.PASSED,
        "stage": Stage.ROUNDS,
        "task_hash": "t",
        "source_hash": "s",
        "score": 1.1,
        "timing": TIMED,
        "environment": Environment(device_class="cpu:x:1"),
    }
    return Evaluation(**{**base, **fields})


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PASSED])
def test_a_failure_has_neither_score_nor_time(status):
    failed = evaluation(status=status, score=None, timing=Untimed(reason="failed"))
    assert failed.score is None
    with pytest.raises(ValidationError, match="score exists only"):
        evaluation(status=status, timing=Untimed(reason="failed"))
    with pytest.raises(ValidationError, match="time exists only"):
        evaluation(status=status, score=None)
    timed_workload = WorkloadResult(workload="w", split="search", weight=1, ratios={"plain": SPEEDUP})
    with pytest.raises(ValidationError, match="workload's time"):
        evaluation(status=status, score=None, timing=Untimed(reason="x"), workloads=(timed_workload,))
    with pytest.raises(ValidationError, match="confirmed"):
        evaluation(status=status, score=None, timing=Untimed(reason="x"), confirmed=True)


def test_a_time_without_a_score_is_impossible_and_no_time_without_a_score_is_not():
    with pytest.raises(ValidationError, match="has a score"):
        evaluation(score=None)
    assert evaluation(score=None, timing=Untimed(reason="too noisy")).score is None


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_are_finite(score):
    with pytest.raises(ValidationError):
        evaluation(score=score)


def test_intervals_are_ordered():
    with pytest.raises(ValidationError, match="out of order"):
        Interval(low=2, estimate=1, high=3, level=0.9)


def test_an_evaluation_survives_json_and_cannot_be_changed():
    one = evaluation()
    assert Evaluation.model_validate_json(one.model_dump_json()) == one
    with pytest.raises(ValidationError, match="frozen"):
        one.score = 99.0
