"""The root of one more than the square, eight times."""

import numpy as np

FAMILIES = ("normal",)
ROW_AXIS = "N"
STEPS = 8


def generate(axes, family, rng):
    """A vector ``x``."""
    return {"x": rng.standard_normal(axes["N"], dtype=np.float32)}


def oracle(inputs, rows=None):
    """``out`` in float64."""
    value = (inputs["x"] if rows is None else inputs["x"][rows]).astype(np.float64)
    for _ in range(STEPS):
        value = np.sqrt(value * value + 1)
    return {"out": value}


def honest_variants(inputs, rows=None):
    """In fp32, and by the length of a vector."""
    value = length = inputs["x"] if rows is None else inputs["x"][rows]
    for _ in range(STEPS):
        value = np.sqrt(value * value + np.float32(1))
        length = np.hypot(length, np.float32(1))
    return {"roots": {"out": value}, "lengths": {"out": length}}


def traffic_bytes(axes):
    """Read once, written once."""
    return 8 * axes["N"]


def operations(axes):
    """A product, a sum and a root a step."""
    return 3 * STEPS * axes["N"]
