"""The MAP-Elites archive: a grid over measures with one elite a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluators.evaluation import Interval, Timed
from evaluators.task import ArchiveDimension
from evolve.types import AddStatus, Program


@dataclass(frozen=True)
class Elite:
    """What the search keeps in memory of a passed program; the rest stays in the database."""

    number: int
    cell: int
    score: float
    speedup: Interval | None = None
    """Where it was timed."""

    @classmethod
    def of(cls, program: Program, cell: int) -> Elite:
        """The elite a passed program would be.

        Raises:
            ValueError: the program has no score.
        """
        verdict = program.verdict
        if verdict is None or verdict.score is None:
            raise ValueError(f"program {program.number} has no score: it can be no elite")
        timing = verdict.timing
        return cls(program.number, cell, verdict.score, timing.speedup if isinstance(timing, Timed) else None)

    @property
    def rank(self) -> tuple[float, int]:
        """Sorts the best first; of equals the older."""
        return (-self.score, self.number)


class Grid:
    """How measures map to cells. A task without dimensions has one cell."""

    def __init__(self, dimensions: Sequence[ArchiveDimension]) -> None:
        """A grid over ``dimensions``, cells numbered in row-major order."""
        self._dimensions = tuple(dimensions)

    def cell(self, measures: Mapping[str, float]) -> int | None:
        """The cell of these measures, clipped into the outer bins; ``None`` where one is missing."""
        cell = 0
        for dimension in self._dimensions:
            value = measures.get(dimension.measure)
            if value is None:
                return None
            share = (value - dimension.low) / (dimension.high - dimension.low)
            cell = cell * dimension.bins + min(dimension.bins - 1, max(0, int(share * dimension.bins)))
        return cell

    def missing(self, measures: Mapping[str, float]) -> str | None:
        """The first dimension's measure that is not there."""
        return next((d.measure for d in self._dimensions if d.measure not in measures), None)


class Archive:
    """The elites of one population. Who may have a cell is decided elsewhere; no operation depends on history."""

    def __init__(self, elites: Iterable[Elite] = ()) -> None:
        """An archive holding ``elites``."""
        self._cells = {elite.cell: elite for elite in elites}
        self._ranked: tuple[Elite, ...] | None = None

    def __len__(self) -> int:
        return len(self._cells)

    def occupant(self, cell: int) -> Elite | None:
        """The elite of a cell."""
        return self._cells.get(cell)

    def put(self, elite: Elite) -> AddStatus:
        """Give ``elite`` its cell."""
        status = AddStatus.IMPROVE if elite.cell in self._cells else AddStatus.NEW
        self._cells[elite.cell] = elite
        self._ranked = None
        return status

    def restart(self, elite: Elite) -> None:
        """Empty the archive but for one elite."""
        self._cells = {elite.cell: elite}
        self._ranked = None

    def ranked(self) -> tuple[Elite, ...]:
        """Every elite, the best first."""
        if self._ranked is None:
            self._ranked = tuple(sorted(self._cells.values(), key=lambda elite: elite.rank))
        return self._ranked

    def best(self) -> Elite | None:
        """The best elite."""
        return self.ranked()[0] if self._cells else None
