# pattern: constants chosen from the shape by Triton's own heuristics
import triton
import triton.language as tl


@triton.heuristics({"B": lambda a: triton.next_power_of_2(a["N"]), "num_warps": lambda a: 4 if a["N"] <= 1024 else 8})
@triton.jit
def kernel(x, out, N, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    a = tl.load(x + row * N + c, mask=c < N, other=-float("inf"))
    e = tl.exp(a - tl.max(a, axis=0))
    tl.store(out + row * N + c, e / tl.sum(e, axis=0), mask=c < N)


def softmax(x, out, M, N):
    kernel[(M,)](x, out, N)
