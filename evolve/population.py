"""Every population of a run: the islands, the archive over all of them, and the best. Rebuilt from the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from evaluators.task import Task
from evolve.archive import Archive, Elite, Grid
from evolve.database.records import GLOBAL, CellRecord, IslandRecord
from evolve.database.storage import Storage
from evolve.island import Island
from evolve.policies.islands import island_of
from evolve.policies.selection import choose_inspirations, choose_parent
from evolve.settings import SearchSettings
from evolve.streams import Stream, stream
from evolve.types import AddStatus, Program


@dataclass(frozen=True)
class Choice:
    """What a proposer is to see."""

    island: int
    parent: Elite
    inspirations: tuple[Elite, ...]


class Population:
    """The state that selection and placement look at. Changed only after the change is in the database."""

    def __init__(self, task: Task, islands: Iterable[IslandRecord]) -> None:
        """Empty islands with these counters."""
        self.grid = Grid(task.archive)
        self.islands: Sequence[Island] = tuple(Island(record) for record in islands)
        self.everywhere = Archive()
        """The best ever of each cell; no reset touches it."""
        self.best: Elite | None = None
        """The confirmed best."""

    @classmethod
    def stored(cls, task: Task, storage: Storage, program: Callable[[int], Program]) -> Self:
        """The populations as the database has them; costs one read for each elite."""
        population = cls(task, storage.islands())
        for record in storage.cells():
            population.put(Elite.of(program(record.program), record.cell), (record,))
        best = storage.run().best
        if best is not None:
            population.best = population.elite(program(best))
        return population

    def archive(self, island: int) -> Archive:
        """An island's archive, or with :data:`GLOBAL` the one over all islands."""
        return self.everywhere if island == GLOBAL else self.islands[island].archive

    def elite(self, program: Program) -> Elite | None:
        """The elite that a program would be; ``None`` where it did not pass, or lacks a measure of the grid."""
        verdict = program.verdict
        if verdict is None or verdict.score is None:
            return None
        cell = self.grid.cell(verdict.measures)
        return None if cell is None else Elite.of(program, cell)

    def choose(self, number: int, turn: int, search: SearchSettings) -> Choice:
        """Island, parent and inspirations for program ``number``: from its own island, inspirations from everywhere.

        It is the ``turn``-th program (the seed is the first), not counting variants tuned inside.
        """
        island = self.islands[island_of(turn, len(self.islands))]
        rng = stream(search.seed, Stream.SELECT, number)
        ranked = island.archive.ranked()
        parent = choose_parent(ranked, search.explore, rng)
        others = (*ranked, *self.everywhere.ranked())
        return Choice(island.number, parent, choose_inspirations(parent, others, search.inspirations, rng))

    def outlook(self, records: Sequence[CellRecord]) -> AddStatus:
        """What taking these cells would do: to the first of them, which is on the program's own island."""
        if not records:
            return AddStatus.NOT_ADDED
        occupant = self.archive(records[0].island).occupant(records[0].cell)
        return AddStatus.NEW if occupant is None else AddStatus.IMPROVE

    def put(self, elite: Elite, records: Iterable[CellRecord]) -> None:
        """Give an elite the cells that were stored for it."""
        for record in records:
            self.archive(record.island).put(elite)
