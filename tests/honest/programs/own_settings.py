# pattern: settings of the interpreter and of NumPy changed for good: collection off, errors raised, warnings, recursion
import gc
import sys
import warnings

import numpy as np

gc.disable()
gc.freeze()
sys.setrecursionlimit(5000)
sys.setswitchinterval(0.05)
np.seterr(all="raise")
warnings.simplefilter("error")


def halves(x, out):
    if len(x) > 1000:
        middle = len(x) // 2
        halves(x[:middle], out[:middle])
        halves(x[middle:], out[middle:])
    else:
        np.multiply(np.sqrt(np.abs(x)), np.float32(2), out=out)


def double_it(x, out, N):
    halves(x, out)
