"""What could not be measured because of noise: it waits until the judge has time, and is measured again."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

from evolve.tuning import Family
from evolve.types import Program

TRIES = 3
"""How many more times one program is measured before noise is what stands."""

PAUSE_S = 30.0
"""Until the next try, which is for a judge that has nothing else to do."""

OVERDUE_S = 600.0
"""After so long it takes its turn among those that are to be placed: somebody may wait for the verdict."""


def unmeasured(program: Program) -> bool:
    """Whether a judged program has no score because of noise, and was not measured again since."""
    return program.evaluation is not None and program.evaluation.noisy and program.confirmation is None


class Unquiet:
    """Judged families whose placement waits for a quieter machine, in the order in which they came here."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives monotonic seconds."""
        self._clock = clock
        self._waiting: deque[tuple[float, Family]] = deque()
        self._tries: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, family: Family) -> None:
        """Set a family aside."""
        self._waiting.append((self._clock(), family))

    def failed(self, family: Family) -> None:
        """Another try was spoilt: set it aside again."""
        self._tries[family.structure.number] += 1
        self.put(family)

    def patient(self, family: Family) -> bool:
        """Whether there is to be yet another try if the next one is spoilt too."""
        return self._tries[family.structure.number] + 1 < TRIES

    def overdue(self) -> Family | None:
        """The one that has waited longest, if that is so long that it is to wait with the others; it leaves here."""
        return self._waiting.popleft()[1] if self.due_s(idle=False) == 0.0 else None

    def take(self, *, now: bool = False) -> Family | None:
        """The next family to be tried again by a judge that has nothing else to do, if it is time.

        Args:
            now: there will be nothing else to do: whoever waits need wait no longer.
        """
        if self._waiting and (now or self._clock() - self._waiting[0][0] >= PAUSE_S):
            return self._waiting.popleft()[1]
        return None

    def due_s(self, *, idle: bool) -> float | None:
        """Seconds until somebody's time comes, never negative; ``None`` where nobody waits.

        Args:
            idle: the judge has nothing else to do.
        """
        if not self._waiting:
            return None
        waited_s = self._clock() - self._waiting[0][0]
        return max(0.0, (PAUSE_S if idle else OVERDUE_S) - waited_s)
