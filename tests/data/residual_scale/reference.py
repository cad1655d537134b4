"""Halve a residual stream and add to it, in place: what a layer's end does between two matrix products."""

import numpy as np

from evaluators.dtypes import decode, encode

FAMILIES = ("normal", "large", "denormal", "zeros", "cancelling")
ROW_AXIS = "M"
COLUMN_AXIS = "N"
LIMITS_IN_ROUNDS = True


def generate(axes, family, rng):
    shape = axes["M"], axes["N"]
    x, y = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    if family == "cancelling":
        y = np.float32(-0.5) * x * (1 + np.float32(1e-3) * y)
    factor = np.float32({"large": 1e30, "denormal": 1e-39, "zeros": 0}.get(family, 1))
    return {"x": x * factor, "y": y * factor}


def oracle(inputs, rows=None):
    x, y = _chosen(inputs, rows, np.float64)
    return {"x": 0.5 * x + y}


def scale(inputs, rows=None):
    x, y = _chosen(inputs, rows, np.float64)
    return {"x": np.abs(x).max(axis=1) / 2 + np.abs(y).max(axis=1)}


def honest_variants(inputs, rows=None):
    x, y = _chosen(inputs, rows, np.float32)
    return {
        "in_order": {"x": x * np.float32(0.5) + y},
        "fused": {"x": (x.astype(np.float64) * 0.5 + y).astype(np.float32)},
    }


def mutants(inputs, rows=None):
    x, y = _chosen(inputs, rows, np.float32)
    once = np.float32(0.5) * x + y
    made = {
        "left as it was": x,
        "done twice": np.float32(0.5) * once + y,
        "not halved": x + y,
        "lower precision": decode(encode(once, "bf16"), "bf16"),
    }
    return {name: {"x": values.astype(np.float32)} for name, values in made.items()}


def operations(axes):
    return 2 * axes["M"] * axes["N"]


def _chosen(inputs, rows, dtype):
    return (np.asarray(inputs[n] if rows is None else inputs[n][rows]).astype(dtype) for n in ("x", "y"))
