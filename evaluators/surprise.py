"""What keeps timed rounds from being told apart from checks.

Rounds hold content of the ordinary family, which needs no care: nothing overflows, nothing is NaN. A program that
counts its calls, or the slots it is shown, knows when only its speed is looked at; it could drop that care then, or add
in whatever order is quickest that time. So in some rounds two calls get one and the same input of any family, made for
this round alone. Both answers must be right, and where the task demands it the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluators.dtypes import Array
from evaluators.reference import Reference
from evaluators.task import Workload

SMALL_ELEMENTS = 1 << 18
"""Inputs of at most this many elements are made in no time."""
SHARE_SMALL, SHARE_LARGE = 0.5, 0.125
"""The share of rounds that hold a surprise."""


@dataclass(frozen=True)
class Surprise:
    """One input in place of the ordinary one."""

    slots: tuple[int, ...]
    """Two of the round's calls; one where it has no more."""
    family: str
    content: Mapping[str, Array]

    def by_slot(self) -> dict[int, Mapping[str, Array]]:
        """What goes where."""
        return dict.fromkeys(self.slots, self.content)


def draw_surprise(
    reference: Reference, workload: Workload, slots: Sequence[int], rng: np.random.Generator
) -> Surprise | None:
    """A surprise for a round with these calls, or ``None`` for most rounds."""
    elements = sum(int(np.prod(shape)) for shape in reference.input_shapes(workload).values())
    if rng.random() >= (SHARE_SMALL if elements <= SMALL_ELEMENTS else SHARE_LARGE):
        return None
    family = str(rng.choice(reference.families))
    chosen = tuple(int(slot) for slot in rng.choice(slots, min(2, len(slots)), replace=False))
    return Surprise(chosen, family, reference.generate(workload, family, rng))
