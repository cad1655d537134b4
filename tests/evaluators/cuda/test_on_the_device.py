"""On a real GPU: exploits gain nothing, honest programs pass, the device stays clean, equal programs draw."""

from pathlib import Path

import pytest

from evaluators.evaluation import DuelOutcome, Status, Timed
from evaluators.judge import open_judge
from evaluators.task_loading import load_task
from tests.evaluators.cuda.programs import CARELESS, EXPLOITS, HONEST

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
TASKS = Path(__file__).parents[3] / "tasks"


@pytest.fixture(scope="module")
def judge():
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    with open_judge(load_task(TASKS / "softmax"), sandbox="full", lanes=1) as (opened, environment):
        if environment.device_class == "no-gpu":
            pytest.skip("no GPU on this machine")
        opened.calibrate()
        yield opened


@pytest.mark.parametrize("name", EXPLOITS)
def test_an_exploit_gains_nothing_and_the_next_one_passes(judge, name):
    language, source, verdicts = EXPLOITS[name]
    evaluation = judge.evaluate(source, language)
    assert evaluation.status in verdicts, (evaluation.message, evaluation.detail)
    honest = judge.evaluate(HONEST["cuda, one kernel"][1], "cuda")
    assert honest.status is Status.PASSED, (honest.message, honest.detail)
    if evaluation.status is Status.PASSED:
        assert evaluation.score < 1.1 * honest.score


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_passes_and_is_timed(judge, name):
    language, source = HONEST[name]
    evaluation = judge.evaluate(source, language)
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
    assert isinstance(evaluation.timing, Timed)


def test_care_dropped_where_only_speed_seems_to_count_is_noticed(judge):
    # A surprise of the family that it fails on comes up in six of ten evaluations.
    verdicts = (judge.evaluate(CARELESS, "cuda").status for _ in range(8))
    assert any(verdict in {Status.WRONG_VALUES, Status.NOT_FINITE} for verdict in verdicts)


def test_a_program_does_not_beat_itself(judge):
    program = (HONEST["triton, one kernel"][1], "triton")
    duel = judge.duel(program, program)
    assert duel.outcome in (DuelOutcome.EQUAL, DuelOutcome.UNDECIDED), duel.message
    assert duel.ratio.low < 1 < duel.ratio.high


def test_the_seeds_pass_and_are_confirmed(judge):
    folder = TASKS / "softmax"
    for file, language in (("seed.py", "triton"), ("seed.cu", "cuda")):
        evaluation = judge.confirm((folder / file).read_text(), language)
        assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
        assert evaluation.confirmed
