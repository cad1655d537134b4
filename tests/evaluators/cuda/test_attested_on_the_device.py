"""On a real GPU: what a profiler and the device's counters say of a round; errors of programs and of devices."""

from pathlib import Path

import pytest

from evaluators.cuda.attestation import OWN_GRIDS
from evaluators.cuda.inspection import Example, ToolUnavailable
from evaluators.cuda.sanitizer import COMMON, MEMCHECK, parse
from evaluators.cuda.sanitizing import leaves_device_alone, small_shapes
from evaluators.evaluation import Status
from tests.evaluators.cuda.attested import BEYOND, CONVICTED, FAULTS, HONEST, ODD, of_the_corpus

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
TASKS = Path(__file__).parents[3] / "tasks"


@pytest.mark.parametrize("name", CONVICTED)
def test_a_round_that_is_not_what_it_seems_is_convicted(judge, name):
    language, source, verdicts = CONVICTED[name]
    evaluation = judge.confirm(source, language)
    assert evaluation.status in verdicts, (evaluation.message, evaluation.detail)


@pytest.mark.parametrize("name", [*HONEST, *ODD])
def test_an_honest_program_is_attested(judge, name):
    language, source = {**HONEST, **ODD}[name]
    evaluation = judge.confirm(source, language)
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
    attested = evaluation.attestation
    assert attested is not None
    assert len(attested.workloads) == 3, attested.missing
    for workload in attested.workloads:
        assert workload.launches >= 1
        if attested.watched:
            launches = workload.calls * workload.launches
            most = workload.calls * (workload.launches + workload.copies + workload.fills)
            assert launches <= workload.dispatches <= most + OWN_GRIDS


def test_a_read_beyond_the_input_is_found_on_small_shapes(judge):
    evaluation = judge.confirm(BEYOND, "cuda")
    if evaluation.attestation is not None and "compute-sanitizer" in evaluation.attestation.missing:
        pytest.skip(evaluation.attestation.missing)
    assert evaluation.status is Status.RUNTIME_ERROR
    assert "stray" in evaluation.message


@pytest.mark.parametrize("name", ["plain.cu", "plain.py"])
def test_a_sanitizer_has_the_device_open_no_sooner_than_its_program(judge, name):
    """Else it cannot be on its way while rounds are timed, and a confirmation takes longer."""
    language, source = HONEST[name]
    bench, shape = judge.bench, small_shapes(judge.bench.task)[-1]
    program = bench.builds.build(bench.task, source, language, ())
    example = Example(shape, bench.checks.case(shape, bench.reference.families[0]).inputs)
    try:
        with judge._device.held():
            report = judge._platform._tools.run((*MEMCHECK, *COMMON), program, bench.task, [example, example])
        found = parse(report)
    except ToolUnavailable as why:
        pytest.skip(str(why))
    assert leaves_device_alone(report), report.devices
    assert not found.errors, found.findings


def test_sanitizers_start_beside_rounds_where_they_have_cores_of_their_own(judge):
    language, source = HONEST["plain.cu"]
    evaluation = judge.confirm(source, language)
    assert evaluation.attestation is not None
    if "compute-sanitizer" in evaluation.attestation.missing:
        pytest.skip(evaluation.attestation.missing)
    assert (evaluation.attestation.memory_errors, evaluation.attestation.race_hazards is None) == (0, False)
    sanitizing = judge._platform._sanitizing
    assert sanitizing.ahead == sanitizing.apart


@pytest.mark.parametrize("name", FAULTS)
def test_a_programs_error_is_its_own_and_the_device_is_well_afterwards(judge, name):
    language, source = of_the_corpus(name)[name]
    evaluation = judge.evaluate(source, language)
    assert evaluation.status in {Status.RUNTIME_ERROR, Status.TIMEOUT}, (evaluation.message, evaluation.detail)
    assert FAULTS[name] in evaluation.message + evaluation.detail
    language, source = HONEST["plain.cu"]
    assert judge.evaluate(source, language).status is Status.PASSED


def test_a_profile_holds_the_devices_counters(judge):
    profile = judge.profile((TASKS / "softmax" / "seed.py").read_text(), "triton")
    assert profile.tool in {"cupti", "ncu"}, profile.missing
    assert profile.hot_spots
    assert profile.counters["registers"].value > 0
