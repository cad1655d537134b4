# pattern: tiles chosen by Triton's autotuner
# task: matmul_bf16
import triton
import triton.language as tl

SHAPES = [(128, 128, 64, 4), (64, 128, 64, 4), (128, 256, 64, 8)]
CONFIGS = [triton.Config({"BM": m, "BN": n, "BK": k}, num_warps=w, num_stages=3) for m, n, k, w in SHAPES]


@triton.autotune(CONFIGS, key=["M", "N", "K"])
@triton.jit
def kernel(x, w, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    columns = (tl.program_id(1) * BN + tl.arange(0, BN)).to(tl.int64)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)
        b = tl.load(
            w + columns[None, :] * K + depth[:, None], mask=(columns[None, :] < N) & (depth[:, None] < K), other=0.0
        )
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)


def matmul(x, w, out, M, K, N):
    kernel[lambda meta: (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))](x, w, out, M, N, K)
