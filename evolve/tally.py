"""How many programs came to what: kept beside the database's own counts, so that nothing has to be counted anew."""

from __future__ import annotations

from collections.abc import Mapping

from evaluators.evaluation import Status
from evolve.database.records import Totals


class Tally:
    """Counts finished programs."""

    def __init__(self, totals: Totals) -> None:
        """Go on from the database's counts."""
        self.finished = totals.finished
        self.duplicates = totals.duplicates
        self._verdicts = dict(totals.verdicts)

    @property
    def judged(self) -> int:
        """Finished programs, duplicates not counted: the clock of migration."""
        return self.finished - self.duplicates

    @property
    def verdicts(self) -> Mapping[str, int]:
        """Finished programs by verdict, duplicates not counted."""
        return dict(self._verdicts)

    def add(self, status: Status, twins: int) -> None:
        """One more program finished, and with it ``twins`` duplicates."""
        self.finished += 1
        self._verdicts[status.value] = self._verdicts.get(status.value, 0) + 1
        self.add_duplicates(twins)

    def add_duplicates(self, number: int) -> None:
        """So many duplicates finished."""
        self.finished += number
        self.duplicates += number
