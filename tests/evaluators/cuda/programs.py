"""What the programs of ``attested.py`` are made of."""

# ruff: noqa: E501  (programs in one line each)

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


def cuda(body: str, before: str = "") -> str:
    return HEAD + before + ENTRY % body


def triton(body: str, before: str = "") -> str:
    return TRITON + before + "\ndef softmax(x, out, M, N):\n" + "".join(f"    {row}\n" for row in body.splitlines())
