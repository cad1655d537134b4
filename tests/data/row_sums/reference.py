"""The sum of the bytes of every row."""

import numpy as np

FAMILIES = ("random", "zeros", "largest")


def generate(axes, family, rng):
    shape = (axes["M"], axes["N"])
    if family == "random":
        return {"x": rng.integers(0, 256, shape, dtype=np.uint8)}
    x = np.full(shape, 0 if family == "zeros" else 255, np.uint8)
    x[:, rng.integers(axes["N"])] = rng.integers(0, 256, axes["M"], dtype=np.uint8)
    return {"x": x}


def oracle(inputs, rows=None):
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return {"out": x.sum(axis=1, dtype=np.int32)}


def honest_variants(inputs, rows=None):
    return {"numpy": oracle(inputs, rows)}


def traffic_bytes(axes):
    return axes["M"] * (axes["N"] + 4)


def operations(axes):
    return axes["M"] * axes["N"]
