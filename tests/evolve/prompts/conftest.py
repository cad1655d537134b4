"""A context with something in every field, and hypothesis without deadlines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from evaluators.profile import Bottleneck
from evaluators.task_loading import load_task
from evolve.prompts.context import (
    FailureNote,
    Lesson,
    PromptContext,
    ShownProfile,
    ShownProgram,
)
from evolve.prompts.facts import task_facts
from evolve.prompts.rendering import PromptBook

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

TASKS = Path(__file__).parents[3] / "tasks"


@pytest.fixture(scope="session")
def book() -> PromptBook:
    return PromptBook()


@pytest.fixture(scope="session")
def full() -> PromptContext:
    return PromptContext(
        operator="diff",
        task=task_facts(load_task(TASKS / "q4_matvec_cpu")),
        parent=ShownProgram(
            number=12,
            source="int parent_source;\n",
            language="cpp",
            status="passed",
            score="1.234 times as fast",
            measures=(("simd_share", "0.8"),),
            workloads=("m4096_k4096: 200 us a call",),
            detail="a compiler's warning",
        ),
        device=(("device", "cpu:A Processor:2"),),
        architecture="x86",
        inspirations=(ShownProgram(7, "int inspiration_source;\n", "cpp", "passed", "1.1 times as fast"),),
        profile=ShownProfile(Bottleneck.BANDWIDTH, "78 % of the reachable bandwidth"),
        failures=(FailureNote("used 64 lanes", "build_error", "no such type", "seed.cpp:3: error", 2),),
        lessons=(Lesson("four rows at once help", 7, 1),),
        hints=("try to prefetch",),
    )
