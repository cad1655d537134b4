"""On a real GPU: programs that change an argument in place are judged like others, and gain nothing by it."""

import pytest

from evaluators.evaluation import DuelOutcome, Status
from tests.evaluators.cuda.in_place import CHEATS, HONEST, TASK

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("judge", [TASK.name], indirect=True),
]


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_passes(judge, name):
    language, source = HONEST[name]
    evaluation = judge.evaluate(source, language)
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
    assert evaluation.score is not None, evaluation.timing


@pytest.mark.parametrize("name", ["seed.py", "seed.cu"])
def test_the_seeds_are_confirmed(judge, name):
    language, source = HONEST[name]
    evaluation = judge.confirm(source, language)
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
    assert evaluation.confirmed


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_gets_what_it_must(judge, name):
    language, source, statuses = CHEATS[name]
    evaluation = judge.evaluate(source, language)
    assert evaluation.status in statuses, (evaluation.status, evaluation.score, evaluation.message)


def test_a_program_does_not_beat_itself(judge):
    program = (HONEST["seed.py"][1], "triton")
    duel = judge.duel(program, program)
    assert duel.outcome in (DuelOutcome.EQUAL, DuelOutcome.UNDECIDED), duel.message
