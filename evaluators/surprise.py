"""What keeps timed rounds from being told apart from checks.

Rounds hold content of the ordinary family, which needs no care: nothing overflows, nothing is NaN. A program that
counts its calls, or the slots it is shown, knows when only its speed is looked at; it could drop that care then, or add
in whatever order is quickest that time. So in some rounds two calls get one and the same input of any family, one that
this process has not seen. Both answers must be right, and where the task demands it the same bit for bit.

Small inputs are made for the round alone. Large ones take longer to make than to judge a program on; they come from a
stock that all candidates share, each of them once at most for one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluators.check_set import CheckCase, CheckSet
from evaluators.dtypes import Array
from evaluators.reference import Reference
from evaluators.task import Workload

SMALL_ELEMENTS = 1 << 18
"""Inputs of at most this many elements are made in no time."""
SHARE_SMALL, SHARE_LARGE = 0.5, 0.25
"""The share of rounds that hold a surprise."""


@dataclass(frozen=True)
class Surprise:
    """One input in place of the ordinary one."""

    slots: tuple[int, ...]
    """Two of the round's calls; one where it has no more."""
    case: CheckCase
    """The input, and what is right for it."""

    def by_slot(self) -> dict[int, Mapping[str, Array]]:
        """What goes where."""
        return dict.fromkeys(self.slots, self.case.inputs)


class Surprises:
    """Where surprises come from."""

    def __init__(self, reference: Reference, checks: CheckSet) -> None:
        """``checks`` is only asked for other sets like it: what candidates are checked on is no surprise."""
        self._reference = reference
        self._stock, self._fresh = checks.another(), checks.fresh()

    def make(self, workloads: Iterable[Workload]) -> None:
        """Fill the stock for these workloads now."""
        self._stock.make(workload for workload in workloads if not self._small(workload))

    def draw(
        self, workload: Workload, slots: Sequence[int], rng: np.random.Generator, seen: set[tuple[str, str]]
    ) -> Surprise | None:
        """A surprise for a round with these calls, or ``None`` for most rounds.

        Args:
            workload: whose round it is.
            slots: the round's calls.
            rng: decides.
            seen: workloads and families of the stock that this process has had; added to.
        """
        small = self._small(workload)
        if rng.random() >= (SHARE_SMALL if small else SHARE_LARGE):
            return None
        families = self._reference.families
        unseen = [family for family in families if (workload.name, family) not in seen]
        family = str(rng.choice(unseen or families))
        case = (self._stock if unseen and not small else self._fresh).case(workload, family)
        if not small:
            seen.add((workload.name, family))
        chosen = tuple(int(slot) for slot in rng.choice(slots, min(2, len(slots)), replace=False))
        return Surprise(chosen, case)

    def _small(self, workload: Workload) -> bool:
        shapes = self._reference.input_shapes(workload).values()
        return sum(int(np.prod(shape)) for shape in shapes) <= SMALL_ELEMENTS
