"""Roots of magnitudes."""

import numpy as np

FAMILIES = ("normal",)
ROW_AXIS = "N"


def generate(axes, family, rng):
    """A vector ``x``."""
    return {"x": rng.standard_normal(axes["N"], dtype=np.float32)}


def oracle(inputs, rows=None):
    """``out`` in float64."""
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return {"out": np.sqrt(np.abs(x.astype(np.float64))) * 2}


def honest_variants(inputs, rows=None):
    """Doubled by a product and by a sum."""
    root = np.sqrt(np.abs(inputs["x"] if rows is None else inputs["x"][rows]))
    return {"product": {"out": root * np.float32(2)}, "sum": {"out": root + root}}


def traffic_bytes(axes):
    """Read once, written once."""
    return 8 * axes["N"]


def operations(axes):
    """A root and a product each."""
    return 2 * axes["N"]
