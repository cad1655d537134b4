"""Families on their way through the search: to the judge, to a place, and back where a cap or noise kept them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from evaluators.evaluation import Timed
from evolve.archive import Elite
from evolve.tuning import Family
from evolve.unquiet import Unquiet, unmeasured


class Backlog:
    """What is to be judged and what is to be placed. Nothing here is in the hands of the judge."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is there yet; ``clock`` gives monotonic seconds."""
        self.waiting: deque[Family] = deque()
        """To be judged, the next one first."""
        self._judged: deque[Family] = deque()
        self._held: list[Family] = []
        """Judged families whose placement a cap refused."""
        self._unquiet = Unquiet(clock)

    @property
    def unplaced(self) -> int:
        """How many are judged and not placed."""
        return len(self._judged) + len(self._held) + len(self._unquiet)

    @property
    def behind(self) -> int:
        """How many keep the judge from wanting more: what noise set aside does not."""
        return len(self.waiting) + len(self._judged) + len(self._held)

    def line_up(self, family: Family, *, first: bool = False) -> None:
        """A family is judged: it is to be placed, or measured again before that."""
        if unmeasured(family.left[0]):
            self._unquiet.put(family)
        elif first:
            self._judged.appendleft(family)
        else:
            self._judged.append(family)

    def next_to_place(self, *, idle: bool, best: Elite | None = None) -> Family | None:
        """The family whose turn it is; ``idle``: the judge has nothing to evaluate.

        Turns are taken in the order of judgement, but one whose interval lies wholly above that of ``best`` comes
        before all others: the sooner it is the best, the fewer are compared with one that is not. What noise spoilt has
        its turn while the judge is idle; if that does not happen for long it lines up with the others: one family a
        turn, so that neither a search without a pause nor the families of a bad hour keep anybody waiting for ever.
        """
        overdue = self._unquiet.overdue()
        if overdue is not None:
            self._judged.append(overdue)
        if self._judged:
            leads = [_lead(family, best) for family in self._judged]
            index = leads.index(max(leads))  # of equals the first
            family = self._judged[index]
            del self._judged[index]
            return family
        return self._unquiet.take() if idle else None

    def due_s(self, *, idle: bool) -> float | None:
        """Seconds until :meth:`next_to_place` may have one although nothing happens; ``None`` where it has to."""
        return self._unquiet.due_s(idle=idle)

    def last_to_place(self) -> Family | None:
        """A family that waits for a quieter machine, when there is nothing else left to do."""
        return self._unquiet.take(now=True)

    def patient(self, family: Family) -> bool:
        """Whether a family is measured yet another time if noise spoils the next one too."""
        return self._unquiet.patient(family)

    def spoilt(self, family: Family) -> None:
        """Noise spoilt a family's placement."""
        self._unquiet.failed(family)

    def hold(self, family: Family) -> None:
        """A cap refused a family's placement."""
        self._held.append(family)

    def release(self) -> None:
        """What a cap refused may be tried again, before anything else."""
        self._judged.extendleft(reversed(self._held))
        self._held.clear()


def _lead(family: Family, best: Elite | None) -> float:
    """How far a family's next lies above the best, as the ratio of the intervals' near ends; 1 where they overlap."""
    verdict = family.left[0].verdict
    if best is None or best.speedup is None or verdict is None or not isinstance(verdict.timing, Timed):
        return 1.0
    return max(verdict.timing.speedup.low / best.speedup.high, 1.0)
