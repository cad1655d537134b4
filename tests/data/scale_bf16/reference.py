"""Every row divided by its root mean square: bf16 in and out, fp32 inside."""

import numpy as np

from evaluators.dtypes import decode, encode

FAMILIES = ("normal", "tiny", "large")
ROW_AXIS = "M"
EPSILON = 1e-6


def generate(axes, family, rng):
    x = rng.standard_normal((axes["M"], axes["N"]), dtype=np.float32)
    if family == "tiny":
        x *= np.float32(1e-4)
    if family == "large":
        x *= np.float32(1e15)
    return {"x": encode(x, "bf16")}


def _values(inputs, rows, dtype):
    bits = inputs["x"] if rows is None else inputs["x"][rows]
    return decode(bits, "bf16").astype(dtype)


def oracle(inputs, rows=None):
    x = _values(inputs, rows, np.float64)
    return {"out": x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON)}


def honest_variants(inputs, rows=None):
    x = _values(inputs, rows, np.float32)
    squares = x * x
    count, epsilon = np.float32(x.shape[1]), np.float32(EPSILON)
    totals = {
        "sequential": np.cumsum(squares, axis=1, dtype=np.float32)[:, -1:],
        "pairwise": squares.sum(axis=1, keepdims=True, dtype=np.float32),
    }
    return {name: {"out": encode(x / np.sqrt(t / count + epsilon), "bf16")} for name, t in totals.items()}


def traffic_bytes(axes):
    return 4 * axes["M"] * axes["N"]


def operations(axes):
    return 4 * axes["M"] * axes["N"]
