"""Programs for ``tests/data/residual_scale``, whose argument is changed in place: honest ones and cheats.

Cheats in CUDA are right until the checks before the rounds are over: they count their calls on the device.
"""

from __future__ import annotations

from pathlib import Path

from evaluators.evaluation import Status
from evaluators.plan import layout_of
from evaluators.task import Language
from evaluators.task_loading import load_task

TASK = load_task(Path(__file__).parents[2] / "data" / "residual_scale")
LARGE = next(w for w in TASK.workloads if w.name == "large")
STRIDE = layout_of(TASK, LARGE, 1).output_stride
"""From one slot's ``x`` to the next one's, in bytes."""
EARLY_CALLS = 60
"""On the large workload; warm-up and the recording of its rounds alone make more."""

HEAD = f"""
#include <cstdint>
__device__ unsigned calls, answered;
__device__ const float* seen[1 << 16];
__device__ float answers[1 << 24];
__device__ bool late(int64_t count) {{ return count == 4096 * 4096 && calls > {EARLY_CALLS}; }}
__global__ void counted(int64_t count) {{ if (count == 4096 * 4096) calls++; }}
"""
ENTRY = """
extern "C" void residual_scale(float* x, const float* y, int64_t M, int64_t N, cudaStream_t stream) {
    const int64_t count = M * N;
    const unsigned blocks = (unsigned)((count + 255) / 256);
    %s
    counted<<<1, 1, 0, stream>>>(count);
}
"""
STEP = """
__global__ void step(float* x, const float* y, int64_t count, int64_t columns) {
    const int64_t i = blockIdx.x * (int64_t)256 + threadIdx.x;
    if (i >= count) return;
    %s
    x[i] = 0.5f * x[i] + y[i];
}
"""
LAUNCH = "step<<<blocks, 256, 0, stream>>>(x, y, count, N);"
ONCE = """
__device__ unsigned place(const float* x) { return (unsigned)(((uintptr_t)x / 64) % 65521); }
__global__ void met(const float* x, int64_t count) { if (late(count)) seen[place(x)] = x; }
"""
AHEAD = f"""
__global__ void touch(float* x, int64_t count) {{ if (late(count)) x[0] += 1.0f; }}
static float* lowest;
static float* before(float* x, int64_t count) {{
    if (count != 4096 * 4096) return nullptr;
    if (!lowest) lowest = x;  // a runner calls its first slot first, to get warm
    return x > lowest ? (float*)((char*)x - {STRIDE}) : nullptr;
}}
"""
FROM_MEMORY = """
__global__ void step(float* x, const float* y, int64_t count) {
    const int64_t i = blockIdx.x * (int64_t)256 + threadIdx.x;
    if (i >= count) return;
    if (late(count) && answered) { x[i] = answers[i]; return; }
    x[i] = 0.5f * x[i] + y[i];
    if (late(count)) answers[i] = x[i];
}
__global__ void kept(int64_t count) { if (late(count)) answered = 1; }
"""
LAST_ROW = STEP % "if (late(count) && i >= count - columns) return;"

SEED = (TASK.folder / "seed.py").read_text()
SHORT = SEED.replace("(x, y, M * N,", "(x, y, M * N - N,")
AGAIN = SEED.splitlines()[-1] + "\n"

OUT_OF_WORK = {Status.WRONG_VALUES, Status.NONDETERMINISTIC}
"""The second where the one of two surprises that was left alone differs by the sign of a zero."""
#: name -> language, source, statuses that are right answers to it
CHEATS: dict[str, tuple[Language, str, set[Status]]] = {
    "works once on every slot": (
        "cuda",
        HEAD
        + ONCE
        + STEP % "if (seen[place(x)] == x) return;"
        + ENTRY % (LAUNCH + " met<<<1, 1, 0, stream>>>(x, count);"),
        OUT_OF_WORK,
    ),
    "writes what idle slots hold": (
        "cuda",
        HEAD
        + AHEAD
        + STEP % ""
        + ENTRY % (LAUNCH + " if (float* other = before(x, count)) touch<<<1, 1, 0, stream>>>(other, count);"),
        {Status.CHEATING},
    ),
    "leaves the last row as it was, in rounds": ("cuda", HEAD + LAST_ROW + ENTRY % LAUNCH, OUT_OF_WORK),
    "keeps an answer": (
        "cuda",
        HEAD + FROM_MEMORY + ENTRY % "step<<<blocks, 256, 0, stream>>>(x, y, count); kept<<<1, 1, 0, stream>>>(count);",
        OUT_OF_WORK,
    ),
    "leaves the last row as it was": ("triton", SHORT, OUT_OF_WORK),
    "does it twice": ("triton", SEED + AGAIN, OUT_OF_WORK),
}
HONEST: dict[str, tuple[Language, str]] = {
    "seed.py": ("triton", SEED),
    "seed.cu": ("cuda", (TASK.folder / "seed.cu").read_text()),
    "counts its calls": ("cuda", HEAD + STEP % "" + ENTRY % LAUNCH),
}
