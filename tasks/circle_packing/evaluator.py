"""Scores a packing: exact feasibility, the sum of the radii, and what the packing looks like."""

from itertools import combinations

import numpy as np

from evaluators.evaluation import Status

TOUCHING = 1e-6
SMALLEST = 1e-100
"""Radii of less on average have no spread: their squares vanish."""
ADVICE = "no tolerance is given: shrink every radius by 1e-12"


def evaluate(context):
    """Build the candidate, call it once, score what it packed."""
    session = context.session(context.build(context.source))
    session.prepare(context.task.workloads[0])
    circles = session.call({})["circles"]
    if not np.isfinite(circles).all():
        raise context.fail(Status.NOT_FINITE, "a centre or radius is NaN or Inf")
    if mistake := first_mistake(circles):
        raise context.fail(Status.WRONG_VALUES, mistake)
    numbers, unit = exact(circles)
    return {"score": sum(r for _, _, r in numbers) / unit, **look(circles)}


def exact(circles):
    """The same numbers as integers, in units of 1 / ``unit``: a float64 is an integer over a power of two."""
    ratios = [[value.as_integer_ratio() for value in row] for row in circles.tolist()]
    unit = max(denominator for row in ratios for _, denominator in row)
    return [tuple(numerator * (unit // denominator) for numerator, denominator in row) for row in ratios], unit


def first_mistake(circles):
    """What is wrong with a packing, in exact integer arithmetic; an empty text where nothing is."""
    numbers, unit = exact(circles)
    for i, (x, y, r) in enumerate(numbers):
        if r < 0:
            return f"circle {i} has the negative radius {r / unit:.6g}"
        if (outside := max(r - x, r - y, x + r - unit, y + r - unit)) > 0:
            return f"circle {i} leaves the square by {decimal(outside, unit)}; {ADVICE}"
    for (i, (x, y, r)), (j, (u, v, s)) in combinations(enumerate(numbers), 2):
        if (x - u) ** 2 + (y - v) ** 2 < (r + s) ** 2:
            overlap = (r + s) / unit - np.hypot((x - u) / unit, (y - v) / unit)
            return f"circles {i} and {j} overlap by {max(overlap, 0.0):.3g}; {ADVICE}"
    return ""


def decimal(numerator, unit):
    """A quotient in three digits; a sum of float64 numbers may be larger than any of them."""
    return f"{numerator / unit:.3g}" if numerator < 2**1023 * unit else "more than 9e+307"


def look(circles):
    """Facts for the archive: how unequal the radii are, how hexagonal the neighbourhoods, what touches."""
    centres, radii = circles[:, :2], circles[:, 2]
    offsets = centres[None] - centres[:, None]  # [i, j]: from circle i to circle j
    distances = np.hypot(offsets[..., 0], offsets[..., 1])
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :6]
    towards = np.take_along_axis(offsets, nearest[..., None], axis=1)
    angles = np.arctan2(towards[..., 1], towards[..., 0])
    gaps = distances - radii[:, None] - radii
    walls = np.concatenate([centres, 1 - centres], axis=1).min(axis=1) - radii
    return {
        "radius_spread": float(radii.std() / radii.mean()) if radii.mean() > SMALLEST else 0.0,
        "hexagonality": float(np.abs(np.exp(6j * angles).mean(axis=1)).mean()),
        "contacts": float(np.count_nonzero(gaps < TOUCHING) / 2),
        "at_walls": float(np.count_nonzero(walls < TOUCHING)),
    }
