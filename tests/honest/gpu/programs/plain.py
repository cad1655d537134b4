# pattern: one kernel
# @softmax.py@


def softmax(x, out, M, N):
    launch(x, out, M, N)
