# pattern: asks torch how many multiprocessors there are and goes over all rows with so many programs
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, M, N, B: tl.constexpr):
    c = tl.arange(0, B)
    for row in range(tl.program_id(0), M, tl.num_programs(0)):
        start = row.to(tl.int64) * N
        a = tl.load(x + start + c, mask=c < N, other=-float("inf"))
        e = tl.exp(a - tl.max(a, axis=0))
        tl.store(out + start + c, e / tl.sum(e, axis=0), mask=c < N)


def softmax(x, out, M, N):
    units = torch.cuda.get_device_properties(x.device).multi_processor_count
    kernel[(min(M, 4 * units),)](x, out, M, N, triton.next_power_of_2(N), num_warps=8)
