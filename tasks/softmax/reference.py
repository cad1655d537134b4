"""What is right for softmax: float64 oracle, seeded inputs, honest programs and wrong ones.

For fp32 and for bf16 scores and probabilities: inside, honest programs compute in fp32.
An error counts against the row's largest probability.
"""

from __future__ import annotations

import numpy as np

from evaluators.dtypes import decode, encode

FAMILIES = (
    "normal",
    "peaked",
    "masked",
    "constant_rows",
    "far_apart",
    "ascending",
    "negative_zeros",
    "denormal",
)
ROW_AXIS = "M"
# Timed rounds tear rows far from 0 apart: a few scores stand above thousands then, which a sum in order loses singly.
LIMITS_IN_ROUNDS = True
_LOG2E = np.float32(1.4426950408889634)


def generate(axes, family, rng):
    """Scores ``x``."""
    m, n = axes["M"], axes["N"]
    x = rng.standard_normal((m, n), dtype=np.float32)
    if family == "normal":  # rows far from 0 overflow, or vanish, where the maximum is not taken off
        x += rng.choice(np.array([-120, 0, 100], np.float32), (m, 1))
    elif family == "peaked":
        x *= np.float32(12)
    elif family == "masked":  # a causal mask: at least the first score stays
        kept = rng.integers(1, n + 1, (m, 1))
        x[np.arange(n)[None, :] >= kept] = -np.inf
    elif family == "constant_rows":
        x[:] = x[:, :1]
    elif family == "far_apart":  # one score decides
        x[np.arange(m), rng.integers(0, n, m)] += np.float32(1e4)
    elif family == "ascending":  # the maximum comes last: the worst case of an online algorithm
        x = np.sort(x, axis=1)
    elif family == "negative_zeros":
        x[:] = np.where(rng.random((m, n)) < 0.5, np.float32(-0.0), np.float32(0.0))
    elif family == "denormal":
        x *= np.float32(1e-39)
    return {"x": x}


def oracle(inputs, rows=None):
    """``out`` in float64."""
    x = _scores(inputs, rows).astype(np.float64)
    terms = np.exp(x - x.max(axis=1, keepdims=True))
    return {"out": terms / terms.sum(axis=1, keepdims=True)}


def operations(axes):
    """A subtraction, an exponential, an addition and a multiplication each; the maximum."""
    return 5 * axes["M"] * axes["N"]


def honest_variants(inputs, rows=None):
    """Orders of summation, ways to take the exponential and to divide, in fp32."""
    x = _scores(inputs, rows)
    peak = x.max(axis=1, keepdims=True)
    shifted = x - peak
    terms = np.exp(shifted)
    by_two = np.exp2(shifted * _LOG2E)
    fused = np.exp2(x * _LOG2E - np.where(np.isfinite(peak), peak, 0) * _LOG2E)
    made = {
        "sequential": terms / _sequential(terms),
        "pairwise": terms / terms.sum(axis=1, keepdims=True, dtype=np.float32),
        "lanes_32": terms / _lanes(terms, 32),
        "exp2": by_two / _lanes(by_two, 256),
        "exp2_of_product": fused / _lanes(fused, 32),
        "reciprocal": terms * (np.float32(1) / _lanes(terms, 128)),
        "online": terms / _online(x),
    }
    return {name: {"out": out} for name, out in made.items()}


def mutants(inputs, rows=None):
    """Mistakes and shortcuts of this task."""
    x = _scores(inputs, rows).astype(np.float64)
    n = x.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.exp(x.astype(np.float32))
        without_peak = plain / plain.sum(axis=1, keepdims=True)
    terms = np.exp(x - x.max(axis=1, keepdims=True))
    short = terms.copy()
    few = n // (32 if inputs["x"].dtype == np.uint16 else 512)  # a bf16 result hardly shows less than a thirtieth
    short[:, n - max(few, 1) :] = 0
    first = terms[:, : max(n // 2, 1)].sum(axis=1, keepdims=True)
    if inputs["x"].dtype == np.float32:
        cut = decode(encode(np.where(np.isfinite(x), x, -1e30), "fp16"), "fp16").astype(np.float64)
        coarse = np.exp(cut - cut.max(axis=1, keepdims=True))
    else:
        coarse = np.round(terms * 64) / 64
    made = {
        "no maximum taken off": without_peak,
        "last columns dropped from the sum": terms / short.sum(axis=1, keepdims=True),
        "half of the row summed": terms / first,
        "not normalised": terms,
        "lower precision": coarse / coarse.sum(axis=1, keepdims=True),
        "uniform": np.full_like(terms, 1 / n),
    }
    return {name: {"out": out.astype(np.float32)} for name, out in made.items()}


def _scores(inputs, rows):
    x = np.asarray(inputs["x"] if rows is None else inputs["x"][rows])
    return x if x.dtype == np.float32 else decode(x, "bf16")


def _sequential(terms):
    return np.cumsum(terms, axis=1, dtype=np.float32)[:, -1:]


def _lanes(terms, count):
    padded = np.pad(terms, ((0, 0), (0, -terms.shape[1] % count)))
    lanes = np.cumsum(padded.reshape(len(terms), -1, count), axis=1, dtype=np.float32)[:, -1]
    return lanes.sum(axis=1, keepdims=True, dtype=np.float32)


def _online(x):
    """Sum and maximum in one pass over blocks of 128, rescaled whenever the maximum moves."""
    peak = np.full((len(x), 1), -np.inf, np.float32)
    total = np.zeros((len(x), 1), np.float32)
    for start in range(0, x.shape[1], 128):
        part = x[:, start : start + 128]
        higher = np.maximum(peak, part.max(axis=1, keepdims=True))
        base = np.where(np.isfinite(higher), higher, np.float32(0))
        total = total * np.exp(peak - base) + np.exp(part - base).sum(axis=1, keepdims=True, dtype=np.float32)
        peak = higher
    return total
