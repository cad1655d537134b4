# pattern: measures two variants by itself at the first call of a shape, and keeps to the faster
# @softmax.py@
from triton.testing import do_bench

chosen = {}


def softmax(x, out, M, N):
    if not x.is_cuda:
        launch(x, out, M, N, warps=4)
        launch(x, out, M, N, warps=8)
        return
    if (M, N) not in chosen:
        times = {w: do_bench(lambda w=w: launch(x, out, M, N, warps=w), warmup=1, rep=3) for w in (4, 8)}
        chosen[M, N] = min(times, key=times.get)
    launch(x, out, M, N, warps=chosen[M, N])
