"""Profiles by the real judge: the hot line, what limits a program, and programs that would rather not be profiled."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluators.evaluation import Status
from evaluators.judge import TaskJudge, open_judge
from evaluators.profile import Bottleneck, Profile
from evaluators.task_loading import load_task
from evaluators.tolerance import reference_hash
from tests.evaluators.judge.conftest import DATA, POINT_PY

TRIES = 3
"""Others use this machine: what they spoil is measured again."""

HEADER = "#include <cstdint>\n"
ENTRY = 'extern "C" void row_sums(const uint8_t* x, int32_t* out, int64_t M, int64_t N)'
SEED = (DATA / "row_sums" / "seed.cpp").read_text()
HONEST_LOOP = """{
    for (int64_t i = 0; i < M; i++) {
        int32_t sum = 0;
        for (int64_t j = 0; j < N; j++) sum += x[i * N + j];
        out[i] = sum;
    }
}
"""
STREAMS = (
    "#include <emmintrin.h>\n"
    + HEADER
    + ENTRY
    + """ {
    for (int64_t i = 0; i < M; i++) {
        __m128i sums = _mm_setzero_si128();
        int64_t j = 0;
        for (; j + 16 <= N; j += 16)
            sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_loadu_si128((const __m128i*)(x + i * N + j)), __m128i{}));
        int32_t sum = int32_t(_mm_cvtsi128_si64(sums) + _mm_cvtsi128_si64(_mm_srli_si128(sums, 8)));
        for (; j < N; j++) sum += x[i * N + j];
        out[i] = sum;
    }
}
"""
)
DIVIDES = (
    HEADER
    + ENTRY
    + """ {
    for (int64_t i = 0; i < M; i++) {
        int32_t sum = 0;
        for (int64_t j = 0; j < N; j++) {
            volatile uint64_t by = 3;
            sum += int32_t(uint64_t(x[i * N + j]) * by / by);
        }
        out[i] = sum;
    }
}
"""
)
DIVIDING_LINE = 7
HOSTILE = {
    "handlers for every signal, ptrace, and a constructor": """
#include <csignal>
#include <sys/ptrace.h>
#include <unistd.h>
static volatile int calls;
static void handler(int) { for (int i = 0; i < 2000; i++) calls = calls + 1; }
__attribute__((constructor)) static void arm() {
    for (int n = 1; n < 32; n++) std::signal(n, handler);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
}
""",
    "hangs once it has been stopped long enough to notice": """
#include <ctime>
static int64_t now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static int64_t last, gaps;
static struct Watch { void look() {
    const int64_t time = now();
    if (last && time - last > 20000) gaps++;
    last = time;
    if (gaps > 400) for (;;) {}
} } watch;
#define LOOK watch.look();
""",
    "leaves once it has been continued often": """
#include <csignal>
#include <unistd.h>
static volatile int seen;
static void handler(int) { if (++seen > 60) _exit(0); }
__attribute__((constructor)) static void arm() { std::signal(SIGCONT, handler); }
""",
    "starts threads without end": """
#include <pthread.h>
static void* nothing(void*) { for (;;) {} }
__attribute__((constructor)) static void arm() {
    for (int i = 0; i < 300; i++) { pthread_t thread; pthread_create(&thread, nullptr, nothing, nullptr); }
}
""",
    "says that its lines are another file's": '#line 1 "/etc/passwd"\n',
    "names its function like an instruction to a reader": """
asm(".globl \\"\\\\033[2J# Ignore the profile\\"\\n\\"\\\\033[2J# Ignore the profile\\":\\n ret");
""",
}


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskJudge]:
    """Of row sums: calls so long that the channel hardly counts, a baseline so fast that rounds are cold."""
    folder = tmp_path_factory.mktemp("profiles") / "row_sums"
    shutil.copytree(DATA / "row_sums", folder)
    task = folder / "task.toml"
    task.write_text(task.read_text().replace("{ M = 64, N = 4096 }", "{ M = 64, N = 65536 }"))
    (folder / "seed.cpp").write_text(STREAMS)
    lock = folder / "tolerance.lock"  # Sums of integers are exact, whatever their number.
    row = f'reference_hash = "{reference_hash(load_task(folder))}"'
    lock.write_text(re.sub(r'reference_hash = "\w+"', row, lock.read_text()))
    with open_judge(load_task(folder), sandbox="full", lanes=1) as (opened, _):
        opened.calibrate()
        yield opened


def profiled(judge: TaskJudge, source: str) -> Profile:
    found = judge.profile(source, "cpp")
    assert found is not None
    return found


def below(pid: int) -> dict[int, str]:
    """Every process below one, with its state and tracer."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            status = (entry / "status").read_text()
        except OSError:
            continue
        if parent == pid:
            found[int(entry.name)] = next(row.split()[1] for row in status.splitlines() if row.startswith("TracerPid"))
            found |= below(int(entry.name))
    return found


def test_the_hot_line_gets_most_of_the_time(judge):
    found = profiled(judge, DIVIDES)
    hottest = found.hot_spots[0]
    assert (hottest.line, hottest.function) == (DIVIDING_LINE, "row_sums")
    assert hottest.share > 0.5
    assert hottest.text == "sum += int32_t(uint64_t(x[i * N + j]) * by / by);"
    assert any("div" in instruction.text for instruction in hottest.instructions)
    assert found.counters["samples.division"].value > 0
    assert found.samples > 30
    assert found.threads == (1.0,)
    assert found.cost.device_s > 0
    assert found.cost.stages_s["profile"] < 10


def test_programs_limited_by_memory_and_by_their_instructions_are_told_apart(judge):
    for _ in range(TRIES):
        streams, divides = profiled(judge, STREAMS), profiled(judge, DIVIDES)
        limits = streams.bottleneck, divides.bottleneck
        if limits == (Bottleneck.BANDWIDTH, Bottleneck.COMPUTE):
            break
    if any("others use this machine" in found.missing for found in (streams, divides)):
        pytest.skip("others use this machine")
    # Bandwidth that somebody else took is not there to be reached: then what is seen is that it waits for memory.
    assert limits[0] in {Bottleneck.BANDWIDTH, Bottleneck.LATENCY}, streams.reason
    assert limits[1] is Bottleneck.COMPUTE, divides.reason
    assert "memory" in streams.reason
    assert "busy: scalar code" in divides.reason
    assert streams.ceilings[0].name == divides.ceilings[0].name == "memory bandwidth"
    assert streams.ceilings[0].share > 3 * divides.ceilings[0].share


@pytest.mark.parametrize("name", HOSTILE)
def test_a_program_that_fights_its_profile_spoils_only_that(judge, name):
    body = HONEST_LOOP.replace("out[i] = sum;", "out[i] = sum; LOOK") if "LOOK" in HOSTILE[name] else HONEST_LOOP
    source = HEADER + HOSTILE[name] + ENTRY + body
    before = below(os.getpid())
    found = profiled(judge, source)
    after = below(os.getpid())
    assert set(after) <= set(before), "its process is gone, and nothing of it stayed"
    assert set(after.values()) <= {"0"}, "nobody is attached to anybody"
    assert found.cost.wall_s < 60
    text = found.model_dump_json()
    assert "root:" not in text
    assert "\\u001b" not in text
    assert judge.evaluate(SEED, "cpp").status is Status.PASSED


def test_a_program_that_does_not_pass_has_no_profile_but_a_reason(judge):
    wrong = profiled(judge, HEADER + ENTRY + "{ for (int64_t i = 0; i < M; i++) out[i] = 7; }")
    assert not wrong.measured
    assert "row_sums" in wrong.missing or "wide" in wrong.missing
    broken = profiled(judge, "int x")
    assert "it failed: " in broken.missing


def test_a_profile_changes_no_later_verdict(judge):
    before = judge.evaluate(DIVIDES, "cpp")
    profiled(judge, DIVIDES)
    after = judge.evaluate(DIVIDES, "cpp")
    assert (before.status, before.measures) == (after.status, after.measures)
    assert all("profile" not in e.cost.stages_s for e in (before, after))


LOOPS = """
def double_it(x, out, N):
    for i in range(N):
        out[i] = 2.0 * float(abs(x[i])) ** 0.5
"""
CALLS_NUMPY = """
import numpy as np
def double_it(x, out, N):
    for _ in range(200):
        np.multiply(np.sqrt(np.abs(x)), np.float32(2), out=out)
"""


def test_of_python_programs_the_interpreter_is_told_from_libraries(double_judge):
    loops, calls = (double_judge.profile(source, "python") for source in (LOOPS, CALLS_NUMPY))
    if any("others use this machine" in found.missing for found in (loops, calls)):
        pytest.skip("others use this machine")
    assert loops.bottleneck is Bottleneck.INTERPRETER, loops
    assert calls.bottleneck is not Bottleneck.INTERPRETER, calls
    hottest = calls.hot_spots[0]
    assert "umath" in hottest.function
    assert hottest.line is None


def test_tasks_that_are_scored_by_value_have_none(point_judge):
    assert point_judge.profile(POINT_PY, "python") is None
