"""Every population of a run: the islands, the archive over all of them, and the best. Rebuilt from the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from evaluators.task import Task
from evolve.archive import Archive, Elite, Grid
from evolve.bans import Bans
from evolve.database.records import GLOBAL, CellRecord, IslandRecord, RunRecord
from evolve.database.steering import Steering
from evolve.island import Island
from evolve.policies.islands import island_of
from evolve.policies.selection import choose_inspirations, choose_parent
from evolve.settings import SearchSettings
from evolve.streams import Stream, stream
from evolve.types import AddStatus, Program


class PopulationReader(Protocol):
    """What of a storage populations are rebuilt from."""

    def run(self) -> RunRecord:
        """See :class:`~evolve.database.storage.Storage`."""
        ...

    def islands(self) -> list[IslandRecord]:
        """See :class:`~evolve.database.storage.Storage`."""
        ...

    def cells(self) -> list[CellRecord]:
        """See :class:`~evolve.database.storage.Storage`."""
        ...


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
        self.paused: frozenset[int] = frozenset()
        """Islands on which nothing new is proposed."""
        self.shunned: frozenset[int] = frozenset()
        """Elites that proposers are not shown: what they do was banned after they were placed."""

    @classmethod
    def stored(cls, task: Task, storage: PopulationReader, program: Callable[[int], Program]) -> Self:
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

    def choose(
        self, number: int, search: SearchSettings, purpose: Stream = Stream.SELECT, *, turn: int | None = None
    ) -> Choice:
        """Island, parent and inspirations for program ``number``: from its own island, inspirations from everywhere.

        It is the ``turn``-th program (the seed is the first) not counting variants tuned inside; ``None``: there are
        none.
        """
        island = self.next_island(number if turn is None else turn)
        rng = stream(search.seed, purpose, number)
        everywhere = self.everywhere.ranked()
        own = island.archive.ranked()
        ranked = self._shown(own) or self._shown(everywhere) or own
        parent = choose_parent(ranked, search.explore, rng)
        others = (*ranked, *self._shown(everywhere))
        return Choice(island.number, parent, choose_inspirations(parent, others, search.inspirations, rng))

    def next_island(self, number: int) -> Island:
        """The island that program ``number`` is to be on: round robin over those that are not paused."""
        active = [island for island in self.islands if island.number not in self.paused] or self.islands
        return active[island_of(number, len(active))]

    def _shown(self, ranked: Sequence[Elite]) -> Sequence[Elite]:
        return [elite for elite in ranked if elite.number not in self.shunned] if self.shunned else ranked

    def parents(self) -> Sequence[Elite]:
        """Every elite that may be a parent, the best first."""
        return self._shown(sorted(self._elites().values(), key=lambda elite: elite.rank))

    def elites(self) -> frozenset[int]:
        """The numbers of all elites."""
        return frozenset(self._elites())

    def _elites(self) -> dict[int, Elite]:
        archives = (self.everywhere, *(island.archive for island in self.islands))
        return {elite.number: elite for archive in archives for elite in archive.ranked()}

    def obey(self, steering: Steering, program: Callable[[int], Program]) -> None:
        """Pause islands, and show nobody the elites that are banned."""
        self.paused = steering.paused
        self.shunned = Bans(steering.bans).among(self.elites(), program)

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
