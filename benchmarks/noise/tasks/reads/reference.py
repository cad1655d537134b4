"""Sums of rows."""

import numpy as np

FAMILIES = ("normal",)
ROW_AXIS = "M"


def generate(axes, family, rng):
    """A matrix ``x``."""
    return {"x": rng.standard_normal((axes["M"], axes["N"]), dtype=np.float32)}


def _rows(inputs, rows):
    return inputs["x"] if rows is None else inputs["x"][rows]


def oracle(inputs, rows=None):
    """``out`` in float64."""
    return {"out": _rows(inputs, rows).sum(axis=1, dtype=np.float64)}


def scale(inputs, rows=None):
    """Sums of magnitudes: a sum itself may cancel."""
    return {"out": np.abs(_rows(inputs, rows)).sum(axis=1, dtype=np.float64)}


def honest_variants(inputs, rows=None):
    """Orders of summation."""
    x = _rows(inputs, rows)
    return {
        "sequential": {"out": np.cumsum(x, axis=1, dtype=np.float32)[:, -1]},
        "pairwise": {"out": x.sum(axis=1, dtype=np.float32)},
        "lanes": {"out": x.reshape(len(x), -1, 32).sum(axis=1, dtype=np.float32).sum(axis=1, dtype=np.float32)},
    }


def traffic_bytes(axes):
    """Every element read, every sum written."""
    return 4 * axes["M"] * (axes["N"] + 1)


def operations(axes):
    """An addition an element."""
    return axes["M"] * axes["N"]
