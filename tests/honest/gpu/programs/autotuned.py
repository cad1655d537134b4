# pattern: Triton's autotuner, which measures at the first call of a shape: charged, not timed
import triton
import triton.language as tl


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (2, 4, 8)], key=["N"])
@triton.jit
def kernel(x, out, N, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    a = tl.load(x + row * N + c, mask=c < N, other=-float("inf"))
    e = tl.exp(a - tl.max(a, axis=0))
    tl.store(out + row * N + c, e / tl.sum(e, axis=0), mask=c < N)


def softmax(x, out, M, N):
    kernel[(M,)](x, out, N, triton.next_power_of_2(N))
