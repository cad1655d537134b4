"""What keeps timed rounds from being told apart from checks.

Rounds hold content of the ordinary family, which needs no care: nothing overflows, nothing is NaN. A program that
counts its calls, or the slots it is shown, knows when only its speed is looked at; it could drop that care then, or add
in whatever order is quickest that time. So in some rounds two calls get one and the same input of any family, one that
this process has not seen. Both answers must be right, and where the task demands it the same bit for bit.

Of a dozen families that shows each too seldom to a program that is careless with one of them alone. So now and then
a *trial* comes before a round: for the programs one like any other, but full of families, and its time counts nowhere.

Small inputs are made for the round alone. Large ones take longer to make than to judge a program on; they come from a
stock that all candidates share, each of them once at most for one process. A process that will have more rounds than
the stock has families gets a reserve: inputs of its own, generated before it begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluators.check_set import CheckCase, CheckSet
from evaluators.reference import Reference
from evaluators.task import Workload

SMALL_ELEMENTS = 1 << 18
"""Inputs of at most this many elements are made in no time."""
SHARE_SMALL, SHARE_LARGE = 0.5, 0.25
"""The share of rounds that hold a surprise."""
TRIAL_SHARE = 1 / 6
"""How often a trial comes before a round, or another after it: whether one follows never depends on those before."""


@dataclass(frozen=True)
class Surprise:
    """One input in place of the ordinary one."""

    slots: tuple[int, ...]
    """Two of the round's calls; one where it has no more, and in trials."""
    case: CheckCase
    """The input, and what is right for it."""


class Surprises:
    """Where surprises come from."""

    def __init__(self, reference: Reference, checks: CheckSet) -> None:
        """``checks`` is only asked for other sets like it: what candidates are checked on is no surprise."""
        self.families = reference.families
        self._reference = reference
        self._stock, self._fresh = checks.another(), checks.fresh()

    def make(self, workloads: Iterable[Workload]) -> None:
        """Fill the stock for these workloads now."""
        self._stock.make(workload for workload in workloads if not self.small(workload))

    def small(self, workload: Workload) -> bool:
        """Whether inputs are made in no time."""
        shapes = self._reference.input_shapes(workload).values()
        return sum(int(np.prod(shape)) for shape in shapes) <= SMALL_ELEMENTS

    def stocked(self, workload: Workload, families: Sequence[str]) -> list[CheckCase]:
        """Inputs that all processes share, each of which one process must see once at most."""
        return self._stock.cases(workload, families)

    def fresh(self, workload: Workload, family: str) -> CheckCase:
        """An input that nobody has seen."""
        return self._fresh.case(workload, family)

    def draft(self, workloads: Iterable[Workload]) -> None:
        """Generate the stock for these workloads; needs no device (see :meth:`CheckSet.draft`)."""
        self._stock.draft((w, family) for w in workloads if not self.small(w) for family in self.families)

    def reserve(self, rounds: Sequence[tuple[Workload, int]]) -> Reserve:
        """What one process will probably need beyond the stock in so many rounds of each workload; needs no device."""
        made = self._fresh.fresh()
        chosen = {workload.name: made.some_of(self._beyond_stock(workload, count)) for workload, count in rounds}
        made.draft((workload, family) for workload, _ in rounds for family in chosen[workload.name])
        return Reserve(made, chosen)

    def _beyond_stock(self, workload: Workload, rounds: int) -> int:
        """The one that lies ready, those that come, on average, and a standard deviation more; less the stock's."""
        if self.small(workload) or rounds <= 0:
            return 0
        needed = 1 + SHARE_LARGE * (rounds - 1) + math.sqrt(SHARE_LARGE * (1 - SHARE_LARGE) * (rounds - 1))
        return max(math.ceil(needed) - len(self.families), 0)


class Reserve:
    """Inputs that nobody has seen, generated for one process before it begins."""

    def __init__(self, checks: CheckSet, families: Mapping[str, Sequence[str]]) -> None:
        """``checks`` has a draft for each of these families, by workload."""
        self._checks = checks
        self._families = {name: list(some) for name, some in families.items()}

    def take(self, workload: Workload) -> CheckCase | None:
        """One that was not taken before; ``None`` where there is none left."""
        left = self._families.get(workload.name)
        return self._checks.case(workload, left.pop()) if left else None


class ProcessSurprises:
    """The surprises of one process.

    What comes next lies ready whether it comes or not, and is made after the one before: a process can read a clock,
    and would know by the length of a pause that a surprise had to be made in it.
    """

    def __init__(self, source: Surprises, rng: np.random.Generator) -> None:
        self._source = source
        self._rng = rng
        self._seen: set[tuple[str, str]] = set()
        self._next: dict[str, CheckCase] = {}
        self._next_trial: dict[str, list[CheckCase]] = {}
        self._reserve: Reserve | None = None

    def supply(self, reserve: Reserve) -> None:
        """Take from this what must be fresh, as far as it lasts. It must be this process's own."""
        self._reserve = reserve

    def get_ready(self, workload: Workload, calls: int, *, trials: bool) -> None:
        """Make what is missing for the next round of so many calls, and for the next trial where there are any."""
        name = workload.name
        if name not in self._next:
            small = self._source.small(workload)
            unseen = [] if small else self._unseen(workload)
            chosen = [str(self._rng.choice(unseen))] if unseen else []
            self._next[name] = self._stocked(workload, chosen)[0] if chosen else self._fresh(workload)
        if trials and name not in self._next_trial:
            unseen = [str(family) for family in self._rng.permutation(self._unseen(workload))][:calls]
            fresh = [] if unseen else [self._fresh(workload)]
            self._next_trial[name] = self._stocked(workload, unseen) + fresh

    def draw(self, workload: Workload, slots: Sequence[int]) -> list[Surprise]:
        """What a round with these calls gets: one in two of its calls, or for most rounds nothing."""
        share = SHARE_SMALL if self._source.small(workload) else SHARE_LARGE
        if self._rng.random() >= share:
            return []
        chosen = self._rng.choice(slots, min(2, len(slots)), replace=False)
        return [Surprise(tuple(int(slot) for slot in chosen), self._next.pop(workload.name))]

    def trial(self, workload: Workload, slots: Sequence[int]) -> list[Surprise]:
        """What a trial with these calls gets: families in as many of them as there are that the process has not had.

        One that is made for it where it has had them all.
        """
        cases = self._next_trial.pop(workload.name)
        chosen = self._rng.permutation(slots)
        return [Surprise((int(slot),), case) for slot, case in zip(chosen, cases, strict=False)]

    def _unseen(self, workload: Workload) -> list[str]:
        return [family for family in self._source.families if (workload.name, family) not in self._seen]

    def _fresh(self, workload: Workload) -> CheckCase:
        reserved = self._reserve.take(workload) if self._reserve is not None else None
        return reserved or self._source.fresh(workload, str(self._rng.choice(self._source.families)))

    def _stocked(self, workload: Workload, families: Sequence[str]) -> list[CheckCase]:
        self._seen |= {(workload.name, family) for family in families}
        return self._source.stocked(workload, families)
