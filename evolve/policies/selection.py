"""Which elites a proposer gets to see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evolve.archive import Elite


def choose_parent(ranked: Sequence[Elite], explore: float, rng: np.random.Generator) -> Elite:
    """Draw a parent from elites given best first.

    With probability ``explore`` every cell is equally likely; else the k-th best with weight 1/k (Zipf's law), which
    keeps the best likely and every other possible.

    Raises:
        ValueError: there is no elite.
    """
    if not ranked:
        raise ValueError("no elite to choose a parent from")
    if rng.random() < explore:
        return ranked[int(rng.integers(len(ranked)))]
    cumulative = np.cumsum(1.0 / np.arange(1, len(ranked) + 1))
    drawn = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return ranked[min(drawn, len(ranked) - 1)]


def choose_inspirations(
    parent: Elite, candidates: Iterable[Elite], count: int, rng: np.random.Generator
) -> tuple[Elite, ...]:
    """Draw up to ``count`` different elites to show beside the parent, from as many different cells as there are.

    Cells come in random order, the parent's last; only when every cell has given one does a cell give a second.
    """
    by_cell: dict[int, list[Elite]] = {}
    for elite in {e.number: e for e in candidates if e.number != parent.number}.values():
        by_cell.setdefault(elite.cell, []).append(elite)
    cells = list(by_cell)
    order = [cells[i] for i in rng.permutation(len(cells))]
    order.sort(key=lambda cell: cell == parent.cell)
    chosen: list[Elite] = []
    depth = 0
    while len(chosen) < count and any(depth < len(by_cell[cell]) for cell in order):
        chosen += [by_cell[cell][depth] for cell in order if depth < len(by_cell[cell])]
        depth += 1
    return tuple(chosen[:count])
