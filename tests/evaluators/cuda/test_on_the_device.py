"""On a real GPU: equal programs draw, the seeds are confirmed. The corpus has a file of its own."""

import pytest

from evaluators.evaluation import DuelOutcome, Status
from tests.exploits.gpu.corpus import TASKS, yardstick

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


def test_a_program_does_not_beat_itself(judge):
    program = (yardstick("softmax", "triton").source({}), "triton")
    duel = judge.duel(program, program)
    assert duel.outcome in (DuelOutcome.EQUAL, DuelOutcome.UNDECIDED), duel.message
    assert duel.ratio.low < 1 < duel.ratio.high


def test_the_seeds_pass_and_are_confirmed(judge):
    folder = TASKS / "softmax"
    for file, language in (("seed.py", "triton"), ("seed.cu", "cuda")):
        evaluation = judge.confirm((folder / file).read_text(), language)
        assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
        assert evaluation.confirmed
