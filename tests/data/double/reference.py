"""Twice the root of the magnitude: a task so small that only the judge itself takes time."""

import numpy as np

FAMILIES = ("normal", "zeros", "infinite")
ROW_AXIS = "N"


def generate(axes, family, rng):
    x = rng.standard_normal(axes["N"], dtype=np.float32)
    if family == "zeros":
        x[:] = 0
    if family == "infinite":
        x[rng.integers(len(x))] = np.inf
    return {"x": x}


def oracle(inputs, rows=None):
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return {"out": np.sqrt(np.abs(x.astype(np.float64))) * 2}


def honest_variants(inputs, rows=None):
    x = inputs["x"] if rows is None else inputs["x"][rows]
    root = np.sqrt(np.abs(x))
    return {"product": {"out": root * np.float32(2)}, "sum": {"out": root + root}}


def traffic_bytes(axes):
    return 8 * axes["N"]


def operations(axes):
    return 2 * axes["N"]
