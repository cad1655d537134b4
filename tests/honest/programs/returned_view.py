# pattern: returns a strided view of a larger array, of a class of its own
import numpy as np


class Roots(np.ndarray):
    """An array with a name."""

    def __array_finalize__(self, other):
        self.name = getattr(other, "name", "roots")


def double_it(x, out, N):
    pairs = np.empty((N, 2), np.float32).view(Roots)
    np.sqrt(np.abs(x), out=pairs[:, 1])
    pairs[:, 1] *= np.float32(2)
    return pairs[:, 1]
