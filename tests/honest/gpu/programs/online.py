# pattern: maximum and sum in one pass over blocks, rescaled whenever the maximum moves
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, N, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    peak = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        a = tl.load(x + row * N + c, mask=c < N, other=-float("inf"))
        higher = tl.maximum(peak, tl.max(a, axis=0))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(peak - base) + tl.sum(tl.exp(a - base), axis=0)
        peak = higher
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        a = tl.load(x + row * N + c, mask=c < N, other=-float("inf"))
        tl.store(out + row * N + c, tl.exp(a - peak) / total, mask=c < N)


def softmax(x, out, M, N):
    kernel[(M,)](x, out, N, 1024, num_warps=4)
