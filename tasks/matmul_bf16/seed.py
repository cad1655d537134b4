import torch
import triton
import triton.language as tl

BLOCK_M = 128  # tune: 64, 128, 256
BLOCK_N = 128  # tune: 64, 128, 256
BLOCK_K = 64  # tune: 32, 64, 128
GROUP_M = 8  # tune: 1, 4, 8, 16
NUM_WARPS = 4  # tune: 4, 8
NUM_STAGES = 3  # tune: 2, 3, 4, 5


@triton.jit
def matmul_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    # Blocks that share columns of w run close together, so that w comes from the cache.
    blocks_m, blocks_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    program = tl.program_id(0)
    group = program // (GROUP * blocks_n)
    height = tl.minimum(blocks_m - group * GROUP, GROUP)
    block_m = group * GROUP + program % (GROUP * blocks_n) % height
    block_n = program % (GROUP * blocks_n) // height
    rows = (block_m * BM + tl.arange(0, BM)).to(tl.int64)
    columns = (block_n * BN + tl.arange(0, BN)).to(tl.int64)
    depth = tl.arange(0, BK)
    x_tile = x_ptr + rows[:, None] * K + depth[None, :]
    w_tile = w_ptr + columns[None, :] * K + depth[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(x_tile, mask=(rows[:, None] < M) & (depth[None, :] < K - k), other=0.0)
        w = tl.load(w_tile, mask=(columns[None, :] < N) & (depth[:, None] < K - k), other=0.0)
        total = tl.dot(x, w, total)
        x_tile += BK
        w_tile += BK
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)


def matmul(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor, M: int, K: int, N: int) -> None:
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_kernel[grid](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps=NUM_WARPS, num_stages=NUM_STAGES
    )
