import torch
import triton
import triton.language as tl

BLOCK = 1024  # tune: 256, 512, 1024, 2048


@triton.jit
def residual_scale_kernel(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    x = tl.load(x_ptr + places, mask=inside)
    y = tl.load(y_ptr + places, mask=inside)
    tl.store(x_ptr + places, 0.5 * x + y, mask=inside)


def residual_scale(x: torch.Tensor, y: torch.Tensor, M: int, N: int) -> None:
    residual_scale_kernel[(triton.cdiv(M * N, BLOCK),)](x, y, M * N, BLOCK=BLOCK)
