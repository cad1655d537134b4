"""Small softmax programs in Triton and CUDA: dishonest ones with the verdict they must get, and honest ones."""

# ruff: noqa: E501  (programs in one line each)

from evaluators.evaluation import Status

HEAD = """
#include <cstdint>
#include <cstdio>
__device__ float row_max(const float* x, int64_t n) { float m = -INFINITY; for (int64_t i = 0; i < n; i++) m = fmaxf(m, x[i]); return m; }
__global__ void soft(const float* x, float* out, int64_t M, int64_t N) {
    __shared__ float part[256];
    int64_t row = blockIdx.x; if (row >= M) return;
    const float* a = x + row * N; float* o = out + row * N;
    float m = -INFINITY; for (int64_t i = threadIdx.x; i < N; i += 256) m = fmaxf(m, a[i]);
    part[threadIdx.x] = m; __syncthreads();
    m = part[0]; for (int t = 1; t < 256; t++) m = fmaxf(m, part[t]);
    __syncthreads();
    float s = 0; for (int64_t i = threadIdx.x; i < N; i += 256) s += expf(a[i] - m);
    part[threadIdx.x] = s; __syncthreads();
    s = 0; for (int t = 0; t < 256; t++) s += part[t];
    for (int64_t i = threadIdx.x; i < N; i += 256) o[i] = expf(a[i] - m) / s;
}
"""
ENTRY = 'extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N, cudaStream_t stream) {\n%s\n}\n'
LAUNCH = "soft<<<M, 256, 0, stream>>>(x, out, M, N);"
RECORDING = (
    "[&] { cudaStreamCaptureStatus s; cudaStreamIsCapturing(stream, &s); return s == cudaStreamCaptureStatusActive; }()"
)
TRITON = """
import torch, triton
import triton.language as tl
@triton.jit
def kernel(x, out, N, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    a = tl.load(x + row * N + c, mask=c < N, other=-float("inf"))
    e = tl.exp(a - tl.max(a, axis=0))
    tl.store(out + row * N + c, e / tl.sum(e, axis=0), mask=c < N)
"""
TRITON_LAUNCH = "kernel[(M,)](x, out, N, triton.next_power_of_2(N), num_warps=8)"


def cuda(body: str, before: str = "") -> str:
    return HEAD + before + ENTRY % body


def triton(body: str, before: str = "") -> str:
    return TRITON + before + "\ndef softmax(x, out, M, N):\n" + "".join(f"    {row}\n" for row in body.splitlines())


HONEST = {
    "cuda, one kernel": ("cuda", cuda(LAUNCH)),
    "cuda, a workspace made once": (
        "cuda",
        cuda("static void* w; if (!w) cudaMalloc(&w, 1 << 20); cudaMemsetAsync(w, 0, 1 << 20, stream); " + LAUNCH),
    ),
    "triton, one kernel": ("triton", triton(TRITON_LAUNCH)),
    "triton, a workspace of its own": (
        "triton",
        triton("t = torch.empty_like(x)\nkernel[(M,)](x, t, N, triton.next_power_of_2(N), num_warps=8)\nout.copy_(t)"),
    ),
    "triton, its own stream joined": (
        "triton",
        triton(
            "s = torch.cuda.Stream() if x.is_cuda else None\n"
            "if s is None:\n"
            f"    {TRITON_LAUNCH}\n"
            "    return\n"
            "s.wait_stream(torch.cuda.current_stream())\n"
            "with torch.cuda.stream(s):\n"
            f"    {TRITON_LAUNCH}\n"
            "torch.cuda.current_stream().wait_stream(s)"
        ),
    ),
}

SLOW = "__global__ void later(const float* x, float* out, int64_t M, int64_t N) { long long t = clock64(); while (clock64() - t < 40000000ll); }\n"
SPIN = "__global__ void spin(volatile int* p) { while (*p == 0); }\n"

#: name -> language, source, statuses that are right answers to it
EXPLOITS = {
    "nothing written": ("cuda", cuda(""), {Status.WRONG_VALUES, Status.NOT_FINITE}),
    "all zeros": ("cuda", cuda("cudaMemsetAsync(out, 0, 4 * M * N, stream);"), {Status.WRONG_VALUES}),
    "the input handed back": (
        "cuda",
        cuda("cudaMemcpyAsync(out, x, 4 * M * N, cudaMemcpyDeviceToDevice, stream);"),
        {Status.WRONG_VALUES, Status.NOT_FINITE},
    ),
    "every second row": (
        "cuda",
        cuda("soft<<<(M + 1) / 2, 256, 0, stream>>>(x, out, M, N);"),
        {Status.WRONG_VALUES, Status.NOT_FINITE},
    ),
    "memoised by pointer": (
        "cuda",
        cuda(
            "static const void* seen[1 << 16]; uint64_t h = ((uint64_t)x >> 6) % (1 << 16); if (seen[h] == x) return; seen[h] = x; "
            + LAUNCH
        ),
        {Status.WRONG_VALUES, Status.NOT_FINITE},
    ),
    "right at first, then stale": (
        "triton",
        triton(f"global n\nn += 1\nif n < 40 or not x.is_cuda:\n    {TRITON_LAUNCH}", "n = 0\n"),
        {Status.WRONG_VALUES, Status.NOT_FINITE, Status.NONDETERMINISTIC},
    ),
    "one call in fifty left out, once recorded": (
        "cuda",
        cuda(f"static int n; if ({RECORDING} && ++n % 50 == 0) return; {LAUNCH}"),
        {Status.WRONG_VALUES},
    ),
    "half precision inside": (
        "triton",
        triton(TRITON_LAUNCH).replace(
            "e = tl.exp(a - tl.max(a, axis=0))", "e = tl.exp((a - tl.max(a, axis=0)).to(tl.float16).to(tl.float32))"
        ),
        {Status.WRONG_VALUES},
    ),
    "no maximum taken off": (
        "triton",
        triton(TRITON_LAUNCH).replace("tl.exp(a - tl.max(a, axis=0))", "tl.exp(a)"),
        {Status.NOT_FINITE, Status.WRONG_VALUES},
    ),
    "inputs overwritten": (
        "cuda",
        cuda(LAUNCH + " cudaMemsetAsync((void*)x, 0, 4, stream);"),
        {Status.CHEATING},
    ),
    "beyond its output": (
        "cuda",
        cuda(LAUNCH + " cudaMemsetAsync(out + M * N, 1, 16, stream);"),
        {Status.RUNTIME_ERROR},
    ),
    "an illegal address": (
        "cuda",
        cuda(
            "cudaMemsetAsync((void*)16, 0, 4, stream);" + LAUNCH + " bad<<<1, 1, 0, stream>>>();",
            "__global__ void bad() { *(volatile int*)16 = 1; }\n",
        ),
        {Status.RUNTIME_ERROR},
    ),
    "an assertion on the device": (
        "cuda",
        cuda(LAUNCH + " bad<<<1, 1, 0, stream>>>();", "#include <cassert>\n__global__ void bad() { assert(false); }\n"),
        {Status.RUNTIME_ERROR},
    ),
    "an endless kernel": (
        "cuda",
        cuda(
            "static int* p; if (!p) cudaMalloc((void**)&p, 4); cudaMemsetAsync(p, 0, 4, stream); spin<<<1, 1, 0, stream>>>(p);",
            SPIN,
        ),
        {Status.TIMEOUT},
    ),
    "exits at once": ("cuda", cuda("_exit(0);", "#include <unistd.h>\n"), {Status.RUNTIME_ERROR}),
    "starts a shell": (
        "cuda",
        cuda('if (system("true") == 0) ' + LAUNCH, "#include <cstdlib>\n"),
        {Status.WRONG_VALUES, Status.NOT_FINITE, Status.RUNTIME_ERROR},
    ),
    "no kernel at all": (
        "triton",
        "import torch\ndef softmax(x, out, M, N):\n    torch.softmax(x, 1, out=out)\n",
        {Status.BUILD_ERROR},
    ),
    "a kernel that was not compiled": (
        "triton",
        triton("kernel[(M,)](x, out, N, triton.next_power_of_2(N), num_warps=4 if x.is_cuda else 8)"),
        {Status.RUNTIME_ERROR},
    ),
    "a patched clock": (
        "triton",
        triton(
            TRITON_LAUNCH, "import time\ntorch.cuda.synchronize = lambda *a: None\ntime.perf_counter_ns = lambda: 0\n"
        ).replace("tl.exp(a - ", "tl.exp(0.5 * a - 0.5 * "),
        {Status.WRONG_VALUES},
    ),
    "other slots written ahead": (
        "cuda",
        cuda(
            LAUNCH
            + " if (M > 64) { int64_t s = (4 * M * N + 576 + 63) / 64 * 64; soft<<<M, 256, 0, stream>>>(x, (float*)((char*)out + s), M, N); }"
        ),
        {Status.CHEATING, Status.RUNTIME_ERROR, Status.WRONG_VALUES},
    ),
    "work on a stream nobody waits for": (
        "cuda",
        cuda(
            "static cudaStream_t s; if (!s) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); soft<<<M, 256, 0, s>>>(x, out, M, N);"
        ),
        {Status.PASSED, Status.WRONG_VALUES, Status.NOT_FINITE, Status.RUNTIME_ERROR, Status.CHEATING},
    ),
}
"""The last one is in order where the runner waits for the whole device; it must then be no faster than honest work."""

CARELESS = cuda(
    f"if ({RECORDING}) rash<<<M, 256, 0, stream>>>(x, out, M, N); else {LAUNCH}",
    HEAD[HEAD.index("__global__") :]
    .replace("soft(", "rash(")
    .replace(
        "float m = -INFINITY; for (int64_t i = threadIdx.x; i < N; i += 256) m = fmaxf(m, a[i]);", "float m = a[0];"
    ),
)
"""Takes off a row's first score in place of the largest, but only where its calls are recorded for timed rounds."""
