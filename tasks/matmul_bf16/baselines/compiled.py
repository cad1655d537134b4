import torch


@torch.compile(dynamic=False)
def compiled(x, w, out):
    out.copy_(torch.matmul(x, w.T))


def matmul(x, w, out, M, K, N):
    compiled(x, w, out)
