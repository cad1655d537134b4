# pattern: the hardware's exponential by inline assembly
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, N, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    a = tl.load(x + row * N + c, mask=c < N, other=-float("inf"))
    d = (a - tl.max(a, axis=0)) * 1.4426950408889634
    e = tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [d], tl.float32, True, 1)
    tl.store(out + row * N + c, e / tl.sum(e, axis=0), mask=c < N)


def softmax(x, out, M, N):
    kernel[(M,)](x, out, N, triton.next_power_of_2(N), num_warps=8)
