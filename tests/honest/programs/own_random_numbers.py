# pattern: draws random numbers that do not show in the answer, catches its own mistakes, exits a scope late
import atexit
import random

import numpy as np

random.seed(7)
atexit.register(lambda: print("done"))


def double_it(x, out, N):
    order = list(range(0, N, 4096))
    random.shuffle(order)
    for start in order:
        try:
            part = slice(start, min(start + 4096, N))
            out[part] = np.sqrt(np.abs(x[part])) * np.float32(2)
            raise StopIteration
        except StopIteration:
            pass
