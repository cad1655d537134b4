"""``x -> (1.05 - 0.25 x^2) x / 2 + start / 2``, a contraction, 192 times."""

import numpy as np

FAMILIES = ("normal",)
ROW_AXIS = "N"
STEPS = 192


def generate(axes, family, rng):
    """A vector ``x`` between -1 and 1."""
    return {"x": rng.uniform(-1, 1, axes["N"]).astype(np.float32)}


def _iterate(x):
    third, most = x.dtype.type(0.25), x.dtype.type(1.05)
    start = x
    for _ in range(STEPS):
        x = x * (most - third * x * x) * x.dtype.type(0.5) + start * x.dtype.type(0.5)
    return x


def oracle(inputs, rows=None):
    """``out`` in float64."""
    return {"out": _iterate((inputs["x"] if rows is None else inputs["x"][rows]).astype(np.float64))}


def honest_variants(inputs, rows=None):
    """As it is written, and with the operations in another order."""
    x = inputs["x"] if rows is None else inputs["x"][rows]
    other = x
    for _ in range(STEPS):
        other = np.float32(0.5) * (other * np.float32(1.05) - np.float32(0.25) * (other * other * other) + x)
    return {"plain": {"out": _iterate(x)}, "factored": {"out": other}}


def traffic_bytes(axes):
    """Read once, written once."""
    return 8 * axes["N"]


def operations(axes):
    """Six a step."""
    return 6 * STEPS * axes["N"]
