"""Softmax programs that are right and whose rounds are not what they seem, and some that only look odd."""

# ruff: noqa: E501  (programs in one line each)

from evaluators.evaluation import Status
from evaluators.task import Language
from tests.evaluators.cuda.programs import HEAD, LAUNCH, cuda, triton
from tests.exploits.gpu.corpus import exploits, honest_programs

FUSED = (
    HEAD[HEAD.index("__global__") :]
    .replace("soft(const float* x, float* out,", "fused(const float* const* xs, float* const* outs,")
    .replace(
        "__shared__ float part[256];",
        "__shared__ float part[256]; const float* x = xs[blockIdx.y]; float* out = outs[blockIdx.y];",
    )
)
BOOK = (
    FUSED
    + """
#include <cstring>
#include <map>
struct Book { const float* x[4096]; float* out[4096]; };
static Book* books[64]; static const float** xs; static float** outs;
struct Known { unsigned long long id; int count, calls, which; };
static std::map<long long, Known> known;
"""
)
FUSE = """
    cudaStreamCaptureStatus status; unsigned long long id = 0;
    cudaStreamGetCaptureInfo(stream, &status, &id);
    if (status != cudaStreamCaptureStatusActive %s) { soft<<<M, 256, 0, stream>>>(x, out, M, N); return; }
    Known& k = known[M * 1000003 + N];
    if (k.id != id) { if (k.count) k.calls = k.count; k.id = id; k.count = 0; k.which = (k.which + 1) %% 64; }
    if (!books[k.which]) cudaMallocHost((void**)&books[k.which], sizeof(Book));
    if (!xs) { cudaMalloc((void**)&xs, sizeof(Book)); outs = (float**)((char*)xs + offsetof(Book, out)); }
    Book* b = books[k.which]; b->x[k.count] = x; b->out[k.count] = out; k.count++;
    if (!k.calls) { soft<<<M, 256, 0, stream>>>(x, out, M, N); return; }
    if (k.count < k.calls) return;
    cudaMemcpyAsync(xs, b, sizeof(Book), cudaMemcpyHostToDevice, stream);
    fused<<<dim3((unsigned)M, k.calls), 256, 0, stream>>>(xs, outs, M, N);
"""
RECORDED = """
#include <cstdio>
static bool recorded() { static int known = -1; if (known < 0) { known = 0; char row[512]; FILE* f = fopen("/proc/self/maps", "r"); while (f && fgets(row, sizeof row, f)) if (strstr(row, "recorder.so")) known = 1; if (f) fclose(f); } return known; }
"""

#: name -> language, source, statuses that are right answers to it
CONVICTED = {
    "a round's calls in one launch": ("cuda", cuda(FUSE % "", BOOK), {Status.CHEATING}),
    "the same, well-behaved while it is recorded": (
        "cuda",
        cuda(FUSE % "|| recorded()", BOOK + RECORDED),
        {Status.CHEATING},
    ),
    "calls side by side, joined at the next but seven": (
        "cuda",
        cuda(
            """
    static cudaStream_t side[8]; static cudaEvent_t begin, end[8]; static int n; static unsigned long long last;
    if (!side[0]) { cudaEventCreateWithFlags(&begin, cudaEventDisableTiming); for (int i = 0; i < 8; i++) { cudaStreamCreateWithFlags(&side[i], cudaStreamNonBlocking); cudaEventCreateWithFlags(&end[i], cudaEventDisableTiming); } }
    cudaStreamCaptureStatus status; unsigned long long id = 0; cudaStreamGetCaptureInfo(stream, &status, &id);
    if (status != cudaStreamCaptureStatusActive) { soft<<<M, 256, 0, stream>>>(x, out, M, N); return; }
    if (id != last) { last = id; n = 0; cudaEventRecord(begin, stream); for (int i = 0; i < 8; i++) cudaStreamWaitEvent(side[i], begin, 0); }
    int i = n++ % 8;
    soft<<<M, 256, 0, side[i]>>>(x, out, M, N);
    cudaEventRecord(end[i], side[i]); cudaStreamWaitEvent(stream, end[i], 0);
"""
        ),
        {Status.CHEATING, Status.RUNTIME_ERROR},
    ),
    "torch's softmax where a kernel is asked for": (
        "triton",
        triton(
            "kernel[(M,)](x, out, N, triton.next_power_of_2(N), num_warps=8)\n"
            "if x.is_cuda:\n    torch.softmax(x, 1, out=out)"
        ),
        {Status.CHEATING},
    ),
}

#: name -> language, source
ODD = {
    "a fill and two kernels": (
        "cuda",
        cuda(
            "static float* w; if (!w) cudaMalloc((void**)&w, 1 << 20); cudaMemsetAsync(w, 0, 4096, stream); touch<<<1, 64, 0, stream>>>(w); "
            + LAUNCH,
            "__global__ void touch(float* w) { w[threadIdx.x] += 1; }\n",
        ),
    ),
    "two kernels side by side in each call": (
        "cuda",
        cuda(
            """
    static cudaStream_t side; static cudaEvent_t begin, end;
    if (!side) { cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking); cudaEventCreateWithFlags(&begin, cudaEventDisableTiming); cudaEventCreateWithFlags(&end, cudaEventDisableTiming); }
    cudaEventRecord(begin, stream); cudaStreamWaitEvent(side, begin, 0);
    int64_t half = M / 2;
    if (half) soft<<<half, 256, 0, side>>>(x, out, half, N);
    soft<<<M - half, 256, 0, stream>>>(x + half * N, out + half * N, M - half, N);
    cudaEventRecord(end, side); cudaStreamWaitEvent(stream, end, 0);
"""
        ),
    ),
}

BEYOND = cuda(
    "static float* w; if (!w) cudaMalloc((void**)&w, 1024); stray<<<1, 32, 0, stream>>>(w, x, M * N, out); " + LAUNCH,
    "__global__ void stray(float* w, const float* x, int64_t n, float* out) { float v = x[n + threadIdx.x]; if (v == 12345.6789f) w[0] = v; }\n",
)
"""Reads 128 bytes beyond its input, which nobody notices but a sanitizer."""


def of_the_corpus(*names: str) -> dict[str, tuple[Language, str]]:
    """Programs of the GPU's corpus by file name: language and source."""
    known = {program.name: program for program in (*honest_programs(), *exploits())}
    return {name: (known[name].language, known[name].source({})) for name in names}


HONEST = of_the_corpus("plain.cu", "workspace.cu", "plain.py", "workspace.py", "own_stream.py")
FAULTS = {"illegal_address.cu": "Xid 31", "device_assertion.cu": "assert", "endless_kernel.cu": "longer than"}
"""Programs that fail on the device, and what is said of it."""
