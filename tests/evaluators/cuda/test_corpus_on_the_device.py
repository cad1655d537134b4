"""On a real GPU: cheats gain nothing, honest programs pass, and whoever comes next finds the device clean."""

import pytest

from evaluators.judge import open_judge
from evaluators.task_loading import load_task
from tests.exploits.gpu.corpus import TASKS, exploits, honest_programs, yardstick
from tests.exploits.gpu.verdicts import SECRET, GpuCourt

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
PROGRAMS = [*honest_programs(), *exploits()]


def of_task(name):
    """The task's programs; those that spend a minute in a compiler are left to the tests without a GPU."""
    return [pytest.param(p, id=p.name) for p in PROGRAMS if p.task == name and not p.slow]


@pytest.fixture(scope="module", params=["softmax", "softmax_bf16", "matmul_bf16"])
def court(request, tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    secret = tmp_path_factory.mktemp("secret") / "secret.txt"
    secret.write_text(SECRET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", SECRET)
        with open_judge(load_task(TASKS / request.param), sandbox="full", lanes=1) as (judge, environment):
            if environment.device_class == "no-gpu":
                pytest.skip("no GPU on this machine")
            judge.calibrate()
            made = GpuCourt(judge, request.param, {"SECRET_FILE": str(secret)})
            made.build(p.values[0] for p in of_task(request.param))
            yield made


def check(court, program):
    verdict = court.verdict(program)
    assert verdict.ok, (verdict.status, verdict.score, verdict.message)


@pytest.mark.parametrize("court", ["softmax"], indirect=True)
@pytest.mark.parametrize("program", of_task("softmax"))
def test_softmax(court, program):
    check(court, program)


@pytest.mark.parametrize("court", ["softmax_bf16"], indirect=True)
@pytest.mark.parametrize("program", of_task("softmax_bf16"))
def test_softmax_bf16(court, program):
    check(court, program)


@pytest.mark.parametrize("court", ["matmul_bf16"], indirect=True)
@pytest.mark.parametrize("program", of_task("matmul_bf16"))
def test_matmul_bf16(court, program):
    check(court, program)


@pytest.mark.parametrize("court", ["softmax"], indirect=True)
@pytest.mark.parametrize("name", ["endless_kernel.cu", "illegal_address.cu", "left_running.cu", "takes_all_memory.cu"])
def test_whoever_comes_next_finds_the_device_clean(court, name):
    harm = next(p for p in exploits() if p.name == name)
    assert court.verdict(harm).ok
    after = court.verdict(yardstick("softmax", "cuda"))
    assert after.ok, (after.status, after.message)
