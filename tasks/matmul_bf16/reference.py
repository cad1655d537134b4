"""What is right for a bf16 linear layer: float64 oracle, seeded inputs, honest programs and wrong ones.

Products of bf16 numbers are exact in fp32; what honest programs differ in is the order of the fp32 sum. An error counts
against the row's largest output.
"""

from __future__ import annotations

import numpy as np

from evaluators.dtypes import decode, encode

FAMILIES = ("normal", "outliers", "one_hot", "cancelling", "constant_rows", "zeros", "denormal", "large")
ROW_AXIS = "M"
COLUMN_AXIS = "N"


def generate(axes, family, rng):
    """Activations ``x`` and weights ``w``."""
    m, n, k = axes["M"], axes["N"], axes["K"]
    x = rng.standard_normal((m, k), dtype=np.float32)
    w = rng.standard_normal((n, k), dtype=np.float32) * np.float32(k**-0.5)
    if family == "outliers":  # a few channels a hundred times larger, as activations of language models have
        x[:, rng.random(k) < 0.01] *= 100
    elif family == "one_hot":
        x[np.arange(k)[None, :] != rng.integers(0, k, (m, 1))] = 0
    elif family == "cancelling" and k > 1:  # the second half of every row of x is the first with the other sign
        half = k // 2
        x[:, half : 2 * half] = -x[:, :half]
        w[:, half : 2 * half] = w[:, :half] * (1 + np.float32(2**-6) * rng.standard_normal((n, half), dtype=np.float32))
    elif family == "constant_rows":
        x[:] = x[:, :1]
    elif family == "zeros":
        x[::2] = 0
        w[::3] = -0.0
    elif family == "denormal":
        x *= np.float32(1e-38)
    elif family == "large":
        x *= np.float32(1e18)
        w *= np.float32(1e18)
    return {"x": x, "w": w}


def oracle(inputs, rows=None):
    """``out`` in float64."""
    x, w = _operands(inputs, rows)
    return {"out": x.astype(np.float64) @ w.astype(np.float64).T}


def operations(axes):
    """A multiplication and an addition a product."""
    return 2 * axes["M"] * axes["N"] * axes["K"]


def honest_variants(inputs, rows=None):
    """Orders of the fp32 sum: by tiles of K as matrix units take them, whole, and split in four."""
    x, w = _operands(inputs, rows)
    made = {
        "blas": x @ w.T,
        "tiles_of_16": _tiles(x, w, 16),
        "tiles_of_64": _tiles(x, w, 64),
        "split_in_4": sum(_tiles(a, b, 64) for a, b in zip(_split(x), _split(w), strict=True)),
    }
    return {name: {"out": out} for name, out in made.items()}


def mutants(inputs, rows=None):
    """Mistakes and shortcuts of this task."""
    x, w = _operands(inputs, rows)
    k = x.shape[1]
    kept = np.arange(k) % 256 != 0 if k > 256 else np.arange(k) != k - 1
    eight_x, eight_w = (decode(encode(_normal(a), "fp8_e4m3"), "fp8_e4m3") * _peak(a) for a in (x, w))
    half = max(k // 2, 1)
    made = {
        "one product in 256 dropped": (x * kept) @ w.T,
        "half of K": x[:, :half] @ w[:, :half].T,
        "operands in fp8": eight_x @ eight_w.T,
        "accumulated in bf16": _in_bf16(x, w),
        "weights of the neighbouring column": x @ np.roll(w, 1, axis=0).T,
        "weights reversed in k": x @ w[:, ::-1].T,
    }
    return {name: {"out": out} for name, out in made.items()}


def _operands(inputs, rows):
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return decode(np.asarray(x), "bf16"), decode(np.asarray(inputs["w"]), "bf16")


def _split(a):
    return np.array_split(a, min(4, a.shape[1]), axis=1)


def _tiles(x, w, size):
    total = np.zeros((len(x), len(w)), np.float32)
    step = max(size, -(-x.shape[1] // 64))
    for start in range(0, x.shape[1], step):
        total += x[:, start : start + step] @ w[:, start : start + step].T
    return total


def _in_bf16(x, w):
    total = np.zeros((len(x), len(w)), np.float32)
    step = max(x.shape[1] // 64, 1)
    for start in range(0, x.shape[1], step):
        total = decode(encode(total + x[:, start : start + step] @ w[:, start : start + step].T, "bf16"), "bf16")
    return total


def _peak(a):
    peak = np.abs(a).max(initial=0)
    return peak / np.float32(448) if peak > 0 else np.float32(1)


def _normal(a):
    return a / _peak(a)
