"""What the judge knows, in the words of a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.device import Cpu
from evaluators.environment import describe_environment
from evaluators.evaluation import (
    Environment,
    ErrorMeasure,
    Evaluation,
    Interval,
    Stage,
    Status,
    Timed,
    WorkloadResult,
)
from evaluators.profile import Bottleneck
from evaluators.shipped import shipped_folder
from evaluators.task_loading import load_task
from evolve.llm.draft import estimate_tokens
from evolve.prompts.cards import load_cards
from evolve.prompts.context import ShownProfile
from evolve.prompts.facts import architecture_of, device_facts, shown_program, signature, task_facts
from evolve.types import Program, ProgramState

TASKS = Path(__file__).parents[3] / "tasks"
Q4 = load_task(TASKS / "q4_matvec_cpu")
ENVIRONMENT = Environment(device_class="cpu:EPYC:2")


def _program(evaluation: Evaluation | None, **more) -> Program:
    fields = {
        "number": 5,
        "source": "int x;",
        "source_hash": "",
        "language": "cpp",
        "operator": "diff",
        "proposer": "llm",
    }
    return Program(**fields, state=ProgramState.FINISHED, island=0, generation=1, evaluation=evaluation, **more)


def _evaluation(status: Status, **more) -> Evaluation:
    return Evaluation(status=status, stage=Stage.ROUNDS, task_hash="", source_hash="", environment=ENVIRONMENT, **more)


def _interval(low: float, estimate: float, high: float) -> Interval:
    return Interval(low=low, estimate=estimate, high=high, level=0.99)


def test_signatures_follow_the_calling_convention():
    assert signature(Q4, "cpp").startswith(
        'extern "C" void q4_matvec(const uint8_t* nibbles, const _Float16* scales, const float* x, float* out, '
        "int64_t M, int64_t K);"
    )
    assert "const __half* scales" in signature(Q4, "cuda")
    assert "int64_t K, cudaStream_t stream);" in signature(Q4, "cuda")
    assert signature(Q4, "python").startswith("def q4_matvec(nibbles, scales, x, out, M, K):")
    assert signature(Q4, "triton").startswith("def q4_matvec(nibbles, scales, x, out):")


def test_held_out_workloads_are_no_authors_business():
    facts = task_facts(Q4)
    said = " ".join((*facts.workloads, *facts.rules, facts.metric))
    assert "14336" not in said
    assert "Llama-3" not in said
    assert len(facts.workloads) == 3


def test_rules_name_precision_threads_and_flags():
    rules = " ".join(task_facts(Q4).rules)
    for words in ("fp32", "2 threads", "-march=native", "-funroll-loops", "same bits"):
        assert words in rules


def test_a_passed_program_shows_time_ratio_floor_and_the_error_nearest_its_limit():
    errors = {
        "normal": ErrorMeasure(max_ulp=1.0, rms_ulp=0.1, max_limit_ulp=10.0, rms_limit_ulp=1.0, elements=9),
        "huge": ErrorMeasure(max_ulp=9.0, rms_ulp=0.1, max_limit_ulp=10.0, rms_limit_ulp=1.0, elements=9),
    }
    result = WorkloadResult(
        workload="m", split="search", weight=1, errors=errors, call_us=_interval(90, 100, 110),
        ratios={"blas": _interval(1.1, 1.2, 1.3)}, floor_us=80.0,
    )  # fmt: skip
    timing = Timed(speedup=_interval(1.1, 1.2, 1.3), cold=True, rounds=9)
    verdict = _evaluation(Status.PASSED, score=1.2, timing=timing, workloads=(result,), measures={"share": 0.51234})
    shown = shown_program(_program(verdict), "time")
    assert shown.score == "1.200 times as fast as the strongest baseline (1.100 to 1.300)"
    (line,) = shown.workloads
    for words in (
        "100.00 us",
        "at least 80.00 us",
        "1.200 times as fast as blas",
        "9 of 10 ulp allowed, on huge inputs",
    ):
        assert words in line
    assert shown.measures == (("share", "0.5123"),)
    glance = timing.speedup.model_copy(update={"level": 0.87})
    verdict = verdict.model_copy(update={"timing": timing.model_copy(update={"speedup": glance})})
    assert shown_program(_program(verdict), "time").score.endswith("(1.100 to 1.300, in few rounds)")


def test_a_failed_program_shows_the_compilers_words():
    verdict = _evaluation(Status.BUILD_ERROR, message="does not compile", detail="x.cpp:1: error: no")
    shown = shown_program(_program(verdict), "time")
    assert (shown.status, shown.score, shown.detail) == ("build_error", "", "x.cpp:1: error: no")


def test_our_own_failures_are_never_shown():
    with pytest.raises(ValueError, match="no verdict"):
        shown_program(_program(_evaluation(Status.RUNTIME_ERROR), judge_failed=True), "time")
    with pytest.raises(ValueError, match="no verdict"):
        shown_program(_program(None), "time")


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("sm_90:NVIDIA H200", "hopper"),
        ("sm_90:NVIDIA H100 80GB HBM3", "hopper"),
        ("sm_100:NVIDIA B200", "blackwell"),
        ("hip:AMD Instinct MI300X", "cdna3"),
        ("sm_120:NVIDIA GeForce RTX 5090", ""),
    ],
)
def test_cards_are_chosen_by_device(device, expected):
    assert architecture_of(Environment(device_class=device)) == expected


@pytest.mark.parametrize(
    ("flags", "vectors", "expected"),
    [
        ("fpu sse sse2 sse4_2 aes avx f16c avx2 fma avx512_vnni", "avx avx2 avx512_vnni f16c fma sse4_2", "x86"),
        ("fp asimd evtstrm aes sve2", "asimd sve2", ""),
    ],
)
def test_the_judge_says_which_vector_instructions_there_are(flags, vectors, expected):
    """In the judge's own words: an environment made up for a test would hold whatever the test looks for."""
    cpu = Cpu("A Processor", (0, 1), 1 << 25, flags)
    environment = describe_environment(Q4, cpu, "full", "ordinary")
    assert dict(device_facts(environment))["vectors"] == vectors
    assert architecture_of(environment) == expected


def test_cards_are_chosen_by_bottleneck_and_subject(full):
    cards = load_cards([shipped_folder("prompts")])

    def chosen(**changes) -> set[str]:
        context = type(full)(**{**vars(full), **changes})
        return {card.name for card in cards if card.fits(context)}

    assert chosen() == {"x86_simd", "bandwidth", "quantisation", "reductions"}
    assert chosen(profile=None) == {"x86_simd", "quantisation", "reductions"}
    computes = chosen(profile=ShownProfile(Bottleneck.COMPUTE, ""))
    assert computes == {"x86_simd", "x86_compute", "quantisation", "reductions"}
    waits = chosen(profile=ShownProfile(Bottleneck.LATENCY, ""))
    assert waits == {"x86_simd", "waiting", "quantisation", "reductions"}
    on_gpu = chosen(architecture="hopper", profile=ShownProfile(Bottleneck.COMPUTE, ""))
    assert on_gpu == {"hopper", "tensor_cores", "quantisation", "reductions"}


def test_every_shipped_card_is_short_and_names_its_sources():
    cards = load_cards([shipped_folder("prompts")])
    assert {c.name for c in cards} >= {
        "hopper", "blackwell", "cdna3", "x86_simd", "bandwidth", "tensor_cores", "reductions", "attention",
        "quantisation",
    }  # fmt: skip
    for card in cards:
        assert card.head.sources
        assert estimate_tokens(card.text) < 800, card.name
