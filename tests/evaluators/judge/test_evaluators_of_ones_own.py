"""An evaluator of one's own that is wrong is named, with its file: no candidate is blamed for it."""

import re
import shutil

import pytest

from evaluators.errors import TaskError
from evaluators.evaluation import Status
from evaluators.judge import open_judge
from evaluators.task_loading import load_task
from tests.evaluators.judge.conftest import DATA, POINT_PY

WRONG = {
    "1.0": "must return a dict of measures with a 'score', not 1.0",
    "None": "with a 'score', not None",
    "{'x': 1.0}": "with a 'score'",
    "{'score': None}": "score = None, which is no finite number",
    "{'score': 1.0, 'x': float('inf')}": "x = inf, which is no finite number",
}


def test_a_wrong_evaluator_is_the_tasks_mistake(tmp_path):
    folder = tmp_path / "point"
    shutil.copytree(DATA / "point", folder)
    answers = ", ".join(f"lambda: {answer}" for answer in [*WRONG, "{'score': 1 / 0}", "{'score': 2}"])
    (folder / "evaluator.py").write_text(
        f"answers = [{answers}]\ndef evaluate(context):\n    return answers.pop(0)()\n"
    )
    with open_judge(load_task(folder), sandbox="reduced", lanes=1) as (judge, _):
        for said in WRONG.values():
            with pytest.raises(TaskError) as caught:
                judge.evaluate(POINT_PY, "python")
            assert said in str(caught.value)
            assert str(caught.value).startswith(f"{folder}: evaluator ")
            assert "\n" not in str(caught.value)
        failed = judge.evaluate(POINT_PY, "python")
        assert failed.status is Status.INFRA_ERROR
        assert re.search(r"evaluator .* raised ZeroDivisionError: division by zero$", failed.message)
        assert judge.evaluate(POINT_PY, "python").score == 2.0
