"""What keeps islands alike enough and different enough: migration and resets, done between placements."""

from __future__ import annotations

from evolve.archive import Elite
from evolve.contest import contest
from evolve.database.records import MigrationRecord
from evolve.island import Island
from evolve.judging import Judging
from evolve.observer import Observer
from evolve.policies.islands import Move, choose_founder, choose_migrants, migration_due, stagnant_island
from evolve.run import Run
from evolve.types import AddStatus


class Tender:
    """Does the migration and the resets that the policies ask for."""

    def __init__(self, run: Run, judging: Judging, observer: Observer) -> None:
        """``observer`` gets a note of each."""
        self._run = run
        self._judging = judging
        self._observer = observer

    def due(self) -> bool:
        """Whether something has to be done before the next placement."""
        return self._run.budget.reached() is None and self.wanted()

    def wanted(self) -> bool:
        """Whether the policies would have something done, whatever the caps say."""
        return self._migration_due() or self._stagnant() is not None

    async def tend(self) -> None:
        """Do one thing that is due.

        Raises:
            BudgetRefusedError: a cap leaves no room for a migrant's duel.
            JudgeError: the judge cannot go on.
        """
        stagnant = self._stagnant()
        if self._migration_due():
            await self._migrate()
        elif stagnant is not None:
            founder = choose_founder(self._run.population.islands, stagnant, self._run.settings.search.seed)
            self._run.reset(stagnant, founder)
            self._observer.on_note("reset", f"island {stagnant.number} starts over from program {founder.number}")

    def _migration_due(self) -> bool:
        search = self._run.settings.search
        return migration_due(self._run.tally.judged, self._run.migration_round, search.migration_every, search.islands)

    def _stagnant(self) -> Island | None:
        return stagnant_island(self._run.population.islands, self._run.settings.search.stagnation)

    async def _migrate(self) -> None:
        number = self._run.migration_round + 1
        moves = choose_migrants(self._run.population.islands, self._run.settings.search.seed, number)
        records, elites = [], []
        for move in moves:
            records.append(MigrationRecord(number, move.source, move.target, move.elite.number, await self._try(move)))
            elites.append(move.elite)
        self._run.migrate(records, elites)
        told = ", ".join(f"{r.program}: {r.source} to {r.target} ({r.placement.value})" for r in records)
        self._observer.on_note("migration", f"round {number}: {told}")

    async def _try(self, move: Move) -> AddStatus:
        archive = self._run.population.archive(move.target)
        occupant: Elite | None = archive.occupant(move.elite.cell)
        program = self._run.program(move.elite.number)
        result = await contest(self._run, self._judging, program, move.elite, occupant)
        if not result.won:
            return AddStatus.NOT_ADDED
        return AddStatus.NEW if occupant is None else AddStatus.IMPROVE
