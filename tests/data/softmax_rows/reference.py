"""Softmax of every row: what may overflow, what may cancel, and what is minus infinity."""

import numpy as np

FAMILIES = ("normal", "large", "equal", "masked")
ROW_AXIS = "M"


def generate(axes, family, rng):
    x = rng.standard_normal((axes["M"], axes["N"]), dtype=np.float32)
    if family == "large":
        x *= 1000
    if family == "equal":
        x[:] = x[:, :1]
    if family == "masked":
        masked = rng.random(x.shape) < 0.3
        masked[:, 0] = False
        x[masked] = -np.inf
    return {"x": x}


def _rows(inputs, rows):
    return inputs["x"] if rows is None else inputs["x"][rows]


def oracle(inputs, rows=None):
    x = _rows(inputs, rows).astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"out": e / e.sum(axis=1, keepdims=True)}


def honest_variants(inputs, rows=None):
    x = _rows(inputs, rows)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    sequential = np.cumsum(e, axis=1, dtype=np.float32)[:, -1:]
    pairwise = e.sum(axis=1, keepdims=True, dtype=np.float32)
    return {
        "sequential": {"out": e / sequential},
        "pairwise": {"out": e / pairwise},
        "reciprocal": {"out": e * (np.float32(1) / pairwise)},
    }


def traffic_bytes(axes):
    return 8 * axes["M"] * axes["N"]


def operations(axes):
    return 5 * axes["M"] * axes["N"]
