"""Without a GPU: Triton programs are run by Triton's interpreter, and wrong ones are found."""

from functools import cache
from importlib.util import find_spec

import pytest

from evaluators.build import BuiltProgram
from evaluators.evaluation import Status, Untimed
from evaluators.failure import CandidateFailure
from evaluators.gpu_judge import preload
from evaluators.interpreter import Interpreter
from evaluators.judge import open_judge
from evaluators.task_loading import load_task
from evaluators.trail import Trail
from evaluators.zygote.client import Zygote
from tests.exploits.gpu.corpus import HONEST_FOLDER, TASKS, exploits, honest_programs

pytestmark = [
    pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and Triton are not installed"),
    pytest.mark.timeout(600),
]
WRONG = ["expected_mean.py", "last_row_left_out.py", "half_precision.py", "no_maximum.py"]
A_TILE_TOO_FEW = """
import triton
import triton.language as tl


@triton.jit
def kernel(x, w, out, M, N, K, B: tl.constexpr, D: tl.constexpr):
    rows = (tl.program_id(0) * B + tl.arange(0, B)).to(tl.int64)
    columns = (tl.program_id(1) * B + tl.arange(0, B)).to(tl.int64)
    total = tl.zeros((B, B), dtype=tl.float32)
    for start in range(0, K - 64, D):
        depth = start + tl.arange(0, D)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)
        kept = (columns[None, :] < N) & (depth[:, None] < K)
        b = tl.load(w + columns[None, :] * K + depth[:, None], mask=kept, other=0.0)
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)


def matmul(x, w, out, M, K, N):
    kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, w, out, M, N, K, 64, 64)
"""


@pytest.fixture(scope="module")
def interpret(tmp_path_factory):
    """Runs a source of a task; nothing is compiled."""
    scratch = tmp_path_factory.mktemp("scratch")
    modules = preload(load_task(TASKS / "softmax"), interprets=True)
    with Zygote(minimum="reduced", scratch=scratch, preload=modules) as zygote:

        @cache
        def interpreter(name):
            return Interpreter(load_task(TASKS / name), zygote, scratch)

        def run(name, source):
            trail = Trail()
            return interpreter(name).check(BuiltProgram(source, "triton", ""), trail), trail

        yield run


def cheat(name):
    return next(p for p in exploits() if p.name == name)


@pytest.mark.parametrize("name", ["softmax", "softmax_bf16", "matmul_bf16"])
def test_a_seed_is_right_on_every_family(interpret, name):
    unclear, trail = interpret(name, (TASKS / name / "seed.py").read_text())
    assert unclear is None
    edge = "m127_n131_k67" if name == "matmul_bf16" else "m127_n509"
    assert len(trail.errors[edge]) == 8


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_found(interpret, name):
    with pytest.raises(CandidateFailure) as caught:
        interpret("softmax", cheat(name).source({}))
    assert caught.value.status.value in cheat(name).statuses


def test_a_tile_too_few_in_bf16_is_found(interpret):
    with pytest.raises(CandidateFailure) as caught:
        interpret("matmul_bf16", A_TILE_TOO_FEW)
    assert caught.value.status is Status.WRONG_VALUES


@pytest.mark.parametrize("name", ["autotuned.py", "heuristics.py", "online.py", "workspace.py"])
def test_an_honest_program_is_right(interpret, name):
    program = next(p for p in honest_programs() if p.path == HONEST_FOLDER / name)
    assert interpret("softmax", program.source({}))[0] is None


def test_what_the_interpreter_does_not_know_is_no_fault_of_the_program(interpret):
    program = next(p for p in honest_programs() if p.name == "inline_assembly.py")
    unclear, _ = interpret("softmax", program.source({}))
    assert "the interpreter could not run it" in unclear


def test_a_judge_without_a_gpu_compiles_and_interprets():
    cheap = cheat("expected_mean.py").source({})
    with open_judge(load_task(TASKS / "softmax"), sandbox="reduced", lanes=1, target="gfx942") as (judge, _):
        seed = judge.evaluate((TASKS / "softmax" / "seed.py").read_text(), "triton")
        wrong = judge.evaluate(cheap, "triton")
    assert seed.status is Status.PASSED, (seed.message, seed.detail)
    assert seed.score is None
    assert isinstance(seed.timing, Untimed)
    assert "right on small shapes" in seed.timing.reason
    assert "gfx942" in seed.timing.reason
    assert {result.workload for result in seed.workloads} >= {"m1_n1", "m127_n509"}
    assert wrong.status is Status.WRONG_VALUES
