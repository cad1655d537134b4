import torch


@torch.compile(dynamic=False)
def compiled(x, out):
    out.copy_(torch.softmax(x, dim=1))


def softmax(x, out, M, N):
    compiled(x, out)
