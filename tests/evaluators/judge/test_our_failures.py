"""What is the judge's own fault is no candidate's failure."""

from __future__ import annotations

import os
import signal

import pytest

from evaluators.evaluation import DuelOutcome, Status
from evaluators.judge import open_judge
from evaluators.task_loading import load_task
from tests.evaluators.judge.conftest import DATA, DOUBLE_CPP, POINT_PY
from tests.evaluators.sandbox_support import zygotes_of_this_process


@pytest.mark.parametrize(("task", "source", "language"), [("point", POINT_PY, "python"), ("double", DOUBLE_CPP, "cpp")])
def test_a_zygote_that_dies_is_an_infra_error(task, source, language):
    before = set(zygotes_of_this_process())
    with open_judge(load_task(DATA / task), sandbox="reduced", lanes=1) as (judge, _):
        judge.calibrate()
        assert judge.evaluate(source, language).status is Status.PASSED
        for pid in set(zygotes_of_this_process()) - before:
            os.kill(pid, signal.SIGKILL)
        for verdict in (judge.evaluate, judge.confirm):
            evaluation = verdict(source, language)
            assert (evaluation.status, evaluation.score) == (Status.INFRA_ERROR, None)
            assert "zygote" in evaluation.message or "sandboxed process" in evaluation.message
        if task == "double":
            duel = judge.duel((source, language), (source, language))
            assert (duel.outcome, duel.failure) == (DuelOutcome.FAILED, Status.INFRA_ERROR)
