# pattern: fills the output and returns it too
# task: softmax_rows
import numpy as np


def softmax(x, out, M, N):
    """Row by row, to stay in the cache."""
    for i in range(M):
        np.subtract(x[i], x[i].max(), out=out[i])
        np.exp(out[i], out=out[i])
        out[i] /= out[i].sum()
    return (out,)
