"""What is right for q4_matvec: float64 oracle, seeded inputs, honest fp32 programs and wrong ones.

A row is ``out[m] = sum over k of (nibble[m, k] - 8) * scale[m, k // 32] * x[k]``. Its error is measured against the sum
of 8 * scale * |x|, which the row could be at most. The error bound of any summation order is a multiple of a sum of
magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2), while the row itself may cancel to
almost nothing; and with 8 in place of |nibble - 8| it also bounds programs that take the zero point off last.
"""

from __future__ import annotations

import numpy as np

FAMILIES = (
    "normal",
    "outliers",
    "one_hot",
    "extreme_nibbles",
    "cancelling",
    "constant_rows",
    "zeros",
    "negative_zeros",
    "denormal_x",
    "denormal_scales",
    "huge",
)
ROW_AXIS = "M"

BLOCK = 32
HALF = BLOCK // 2
ZERO_POINT = 8
_ROWS_AT_ONCE = 128


def generate(axes, family, rng):
    """Content for ``nibbles``, ``scales`` and ``x``."""
    m, k = axes["M"], axes["K"]
    nibbles = rng.integers(0, 256, (m, k // 2), dtype=np.uint8)
    scales = (0.005 * np.exp(0.5 * rng.standard_normal((m, k // BLOCK), dtype=np.float32))).astype(np.float16)
    x = rng.standard_normal(k, dtype=np.float32)
    if family == "outliers":  # a few channels a hundred times larger, as activations of language models have
        x[rng.random(k) < 0.01] *= 100
    elif family == "one_hot":
        x[np.arange(k) != rng.integers(k)] = 0
    elif family == "extreme_nibbles":
        nibbles = rng.choice(np.array([0x00, 0x0F, 0xF0, 0xFF], dtype=np.uint8), (m, k // 2))
    elif family == "cancelling":  # the second half of every block is the first with the other sign
        x = x.reshape(-1, 2, HALF)
        x[:, 1] = -x[:, 0]
        x = x.reshape(k)
        nibbles = (nibbles & 0x0F) * np.uint8(0x11)
    elif family == "constant_rows":
        nibbles[:] = rng.integers(0, 16, (m, 1), dtype=np.uint8) * np.uint8(0x11)
        scales[:] = scales[:, :1]
        x[:] = x[0]
    elif family == "zeros":
        x[rng.random(k) < 0.5] = 0
        nibbles[::2] = 0x88
        scales[1::4] = 0
    elif family == "negative_zeros":
        x[:] = np.where(rng.random(k) < 0.5, np.float32(-0.0), np.float32(0.0))
    elif family == "denormal_x":
        x *= np.float32(1e-39)
        scales[:] = rng.uniform(0.25, 4, scales.shape)
    elif family == "denormal_scales":
        scales = rng.integers(0, 0x0400, scales.shape, dtype=np.uint16).view(np.float16)
    elif family == "huge":  # the largest sums stay below the largest fp32
        x *= np.float32(1e26)
        scales[:] = rng.uniform(1e3, 65504, scales.shape)
    return {"nibbles": nibbles, "scales": scales, "x": x}


def oracle(inputs, rows=None):
    """``out`` in float64: products are exact there, and sums err by 1e-16 of the row's scale."""
    chosen = np.arange(len(inputs["nibbles"])) if rows is None else np.asarray(rows)
    out = np.empty(len(chosen))
    x = inputs["x"].astype(np.float64).reshape(-1, BLOCK)
    for start in range(0, len(chosen), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        weights, scales, _ = _unpack(inputs, chosen[part])
        sums = np.einsum("rbk,bk->rb", weights.astype(np.float64), x)
        out[part] = np.einsum("rb,rb->r", sums, scales.astype(np.float64))
    return {"out": out}


def scale(inputs, rows=None):
    """Sum of 8 * scale * |x| of each row."""
    scales = inputs["scales"] if rows is None else inputs["scales"][rows]
    sums = np.abs(inputs["x"].astype(np.float64)).reshape(-1, BLOCK).sum(axis=1)
    return {"out": ZERO_POINT * np.einsum("rb,b->r", np.abs(scales.astype(np.float64)), sums)}


def traffic_bytes(axes):
    """Weights, scales and ``x`` read once, ``out`` written once."""
    m, k = axes["M"], axes["K"]
    return m * k // 2 + m * (k // BLOCK) * 2 + 4 * k + 4 * m


def operations(axes):
    """A multiplication and an addition a weight."""
    return 2 * axes["M"] * axes["K"]


def honest_variants(inputs, rows=None):
    """Orders of summation that honest fp32 programs use; the zero point taken off before or after the product."""
    weights, scales, x = _unpack(inputs, rows)
    blocks = weights.astype(np.float32)
    block_scales = scales.astype(np.float32)
    products = (blocks * block_scales[..., None]) * x
    terms = products.reshape(len(products), -1)
    inner = _sequential(blocks * x)
    with_offset = _sequential((blocks + np.float32(ZERO_POINT)) * x) - np.float32(ZERO_POINT) * _sequential(x)
    sums = {
        "sequential": _sequential(terms),
        "pairwise": _pairwise(terms),
        "lanes_8": _lanes(terms, 8),
        "lanes_32": _lanes(terms, 32),
        "tiled": _pairwise(_sequential(products)),
        "scale_after_block": _sequential(inner * block_scales),
        "offset_after_block": _sequential(with_offset * block_scales),
        "offset_in_lanes": _lanes_with_offset(blocks, block_scales, x),
    }
    return {name: {"out": total} for name, total in sums.items()}


def mutants(inputs, rows=None):
    """Mistakes and shortcuts of this task."""
    weights, scales, x = _unpack(inputs, rows)
    weights, scales = weights.astype(np.float64), scales.astype(np.float64)
    raw = weights + ZERO_POINT
    step = np.abs(x).max(axis=1, keepdims=True).astype(np.float64) / 127
    rounded_x = np.rint(x / np.where(step == 0, 1, step)) * step

    def dot(w, s, v):
        return {"out": np.einsum("rbk,rb,bk->r", w, s, v.astype(np.float64), optimize=True).astype(np.float32)}

    kept = np.arange(x.size).reshape(x.shape) % 1000 != 0
    interleaved = weights.reshape(*weights.shape[:2], 2, HALF).swapaxes(2, 3).reshape(weights.shape)
    return {
        "no zero point": dot(raw, scales, x),
        "nibbles swapped": dot(np.roll(weights, HALF, axis=2), scales, x),
        "nibbles interleaved": dot(interleaved, scales, x),
        "scale of the neighbouring block": dot(weights, np.roll(scales, 1, axis=1), x),
        "last block dropped": dot(weights[:, :-1], scales[:, :-1], x[:-1]),
        "one weight in a thousand dropped": dot(np.where(kept, weights, 0), scales, x),
        "vector in int8 by block": dot(weights, scales, rounded_x),
        "scales cut to 8 bits": dot(weights, _cut(scales, 8), x),
        "vector cut to 16 bits": dot(weights, scales, _cut(x.astype(np.float64), 16)),
    }


def _unpack(inputs, rows=None):
    """Integer weights less their zero point (rows, blocks, 32), scales (rows, blocks), x (blocks, 32)."""
    nibbles, scales = inputs["nibbles"], inputs["scales"]
    if rows is not None:
        nibbles, scales = nibbles[rows], scales[rows]
    packed = nibbles.reshape(len(nibbles), -1, HALF)
    weights = np.concatenate([packed & 0x0F, packed >> 4], axis=2).view(np.int8)
    weights -= ZERO_POINT
    return weights, scales, inputs["x"].reshape(-1, BLOCK)


def _sequential(terms):
    """Sum over the last axis from left to right, in the terms' precision."""
    return np.cumsum(terms, axis=-1, dtype=terms.dtype)[..., -1]


def _pairwise(terms):
    """Sum over the last axis as a balanced tree."""
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[..., :1])], axis=-1)
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def _lanes(terms, count):
    """Sum over the last axis in ``count`` interleaved lanes, then the lanes."""
    lanes = np.cumsum(terms.reshape(len(terms), -1, count), axis=1, dtype=terms.dtype)[:, -1]
    return _pairwise(lanes)


def _lanes_with_offset(blocks, block_scales, x):
    """As vectorised code does it: 8 lanes a block start from -8 times the sum of x and take unsigned nibbles."""
    offset = np.float32(-ZERO_POINT)
    raw = (blocks - offset).reshape(*blocks.shape[:2], 4, 8)
    lanes_x = x.reshape(-1, 4, 8)
    start = offset * _sequential(lanes_x.swapaxes(1, 2))
    total = np.broadcast_to(start, (len(raw), *start.shape)).astype(np.float32)
    for part in range(4):
        total = total + raw[:, :, part] * lanes_x[:, part]
    return _pairwise(_sequential((total * block_scales[..., None]).swapaxes(1, 2)))


def _cut(values, bits):
    """Float64 values rounded to so many significant bits."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)
