# pattern: a temporary tensor in every call
# @softmax.py@


def softmax(x, out, M, N):
    made = torch.empty_like(x)
    launch(x, made, M, N)
    out.copy_(made)
