"""On a real GPU: cheats gain nothing, honest programs pass, and whoever comes next finds the device clean."""

import pytest

from tests.exploits.gpu.corpus import exploits, honest_programs, yardstick

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
PROGRAMS = [*honest_programs(), *exploits()]


def of_task(name):
    """The task's programs; those that spend a minute in a compiler are left to the tests without a GPU."""
    return [pytest.param(p, id=p.name) for p in PROGRAMS if p.task == name and not p.slow]


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
