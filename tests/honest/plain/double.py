import numpy as np


def double_it(x, out, N):
    np.multiply(np.sqrt(np.abs(x)), np.float32(2), out=out)
