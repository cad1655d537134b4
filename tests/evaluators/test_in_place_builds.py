"""Without a GPU: programs that change an argument in place compile, and Triton's are run by its interpreter."""

import shutil
from importlib.util import find_spec

import pytest

from evaluators.evaluation import Status, Untimed
from evaluators.judge import open_judge
from tests.evaluators.cuda.in_place import CHEATS, HONEST, TASK

pytestmark = [
    pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and Triton are not installed"),
    pytest.mark.timeout(600),
]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")


@pytest.fixture(scope="module")
def judge():
    with open_judge(TASK, sandbox="reduced", lanes=1, target="sm_90") as (opened, _):
        yield opened


def of(language, programs):
    return [name for name, program in programs.items() if program[0] == language]


@needs_nvcc
@pytest.mark.parametrize("name", of("cuda", HONEST | CHEATS))
def test_a_cuda_program_compiles(judge, name):
    evaluation = judge.evaluate((HONEST | CHEATS)[name][1], "cuda")
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)


def test_the_triton_seed_is_right_in_the_interpreter(judge):
    evaluation = judge.evaluate(HONEST["seed.py"][1], "triton")
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
    assert isinstance(evaluation.timing, Untimed)
    assert "right on small shapes" in evaluation.timing.reason


@pytest.mark.parametrize("name", of("triton", CHEATS))
def test_a_wrong_triton_program_is_found_by_the_interpreter(judge, name):
    assert judge.evaluate(CHEATS[name][1], "triton").status is Status.WRONG_VALUES
