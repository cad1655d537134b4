"""Sort every row of integers in place."""

import numpy as np

FAMILIES = ("random", "few", "sorted", "descending")


def generate(axes, family, rng):
    shape = (axes["M"], axes["N"])
    keys = rng.integers(-(2**31), 2**31, shape, dtype=np.int32)
    if family == "few":
        keys = rng.integers(0, 3, shape, dtype=np.int32)
    if family in ("sorted", "descending"):
        keys.sort(axis=1)
    if family == "descending":
        keys = np.ascontiguousarray(keys[:, ::-1])
    return {"keys": keys}


def oracle(inputs, rows=None):
    keys = inputs["keys"] if rows is None else inputs["keys"][rows]
    return {"keys": np.sort(keys, axis=1)}


def honest_variants(inputs, rows=None):
    return {
        "stable": {"keys": np.sort(inputs["keys"] if rows is None else inputs["keys"][rows], axis=1, kind="stable")}
    }


def traffic_bytes(axes):
    return 8 * axes["M"] * axes["N"]


def operations(axes):
    return axes["M"] * axes["N"]
