import torch


def residual_scale(x: torch.Tensor, y: torch.Tensor, M: int, N: int) -> None:
    x.mul_(0.5).add_(y)
