# pattern: K is split among programs, whose parts a second kernel adds in a fixed order
# task: matmul_bf16
import torch
import triton
import triton.language as tl


@triton.jit
def parts_kernel(x, w, parts, M, N, K, SPLIT: tl.constexpr, B: tl.constexpr, D: tl.constexpr):
    rows = (tl.program_id(0) * B + tl.arange(0, B)).to(tl.int64)
    columns = (tl.program_id(1) * B + tl.arange(0, B)).to(tl.int64)
    part = tl.program_id(2)
    share = tl.cdiv(tl.cdiv(K, D), SPLIT) * D
    total = tl.zeros((B, B), dtype=tl.float32)
    for start in range(part * share, tl.minimum(K, (part + 1) * share), D):
        depth = start + tl.arange(0, D)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)
        b = tl.load(
            w + columns[None, :] * K + depth[:, None], mask=(columns[None, :] < N) & (depth[:, None] < K), other=0.0
        )
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(parts + part.to(tl.int64) * M * N + rows[:, None] * N + columns[None, :], total, mask=inside)


@triton.jit
def sum_kernel(parts, out, size, SPLIT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for part in range(SPLIT):
        total += tl.load(parts + part * size + i, mask=i < size)
    tl.store(out + i, total.to(tl.bfloat16), mask=i < size)


def matmul(x, w, out, M, K, N):
    parts = torch.empty((4, M, N), dtype=torch.float32, device=x.device)
    parts_kernel[(triton.cdiv(M, 128), triton.cdiv(N, 128), 4)](x, w, parts, M, N, K, 4, 128, 64, num_warps=8)
    sum_kernel[(triton.cdiv(M * N, 1024),)](parts, out, M * N, 4, 1024)
