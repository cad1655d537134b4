# pattern: returns a fresh array, of the task's type though the work is done in double
import numpy as np


def double_it(x, out, N):
    return (2 * np.sqrt(np.abs(x.astype(np.float64)))).astype(np.float32)
