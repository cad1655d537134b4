"""Placing judged programs: contests for cells, and the confirmation of a new best.

One placement at a time, in the order of judgement but for programs far ahead; so what a contest was about still holds
when it is won.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evaluators.errors import UsageError
from evaluators.evaluation import Duel, Status, Untimed
from evolve.archive import Elite
from evolve.contest import contest
from evolve.database.records import GLOBAL, CellRecord
from evolve.judging import Judging
from evolve.observer import Observer
from evolve.run import SEED_NUMBER, Run
from evolve.types import Program
from evolve.unquiet import unmeasured


@dataclass(frozen=True)
class Claim:
    """What a challenger has won."""

    cells: tuple[CellRecord, ...] = ()
    best: bool = False
    failed: Duel | None = None
    """The duel in which the challenger failed."""


class Placer:
    """Decides with the judge's help what a judged program gets, and has it stored."""

    def __init__(
        self, run: Run, judging: Judging, observer: Observer, profiles: Callable[[], bool] = lambda: True
    ) -> None:
        """``observer`` hears of contenders and new bests; ``profiles`` says whether somebody would read them."""
        self._profiles = profiles
        self._run = run
        self._judging = judging
        self._observer = observer

    async def place(self, program: Program, *, patient: bool = False) -> list[Program]:
        """Place a judged program; returns what is finished by it: itself, then the duplicates that waited for it.

        A program that passed and has no score because of noise is confirmed first: that is its second measurement.

        Raises:
            BudgetRefusedError: a cap leaves no room for a duel or a confirmation; the program stays ``judged``.
            UnquietError: noise spoilt one, and whoever asks is ``patient`` enough to ask another time.
            UsageError: the seed program does not pass, or lacks a measure of the archive.
            JudgeError: the judge cannot go on.
        """
        if unmeasured(program):
            program = await self._judging.confirm(program, patient=patient)
        claim = await self._claim(program, patient)
        if claim.failed is not None and program.confirmation is None:
            program = self._judging.fail_in_duel(program, claim.failed)
        elif claim.best and program.confirmation is None:
            program = await self._confirm(program, patient)
            # The confirmed score may be another: what was won before is looked at again (duels are not held twice).
            claim = await self._claim(program, patient)
        if claim.failed is not None:  # once confirmed its verdict stands, but it gets nothing
            claim = Claim()
        if claim.cells and program.profile is None and self._run.task.metric == "time" and self._profiles():
            program = await self._judging.profile(program)
        finished = self._run.finish(program, claim.cells, best=claim.best)
        if claim.best:
            self._observer.on_best(finished[0])
        return finished

    async def _confirm(self, program: Program, patient: bool) -> Program:
        self._run.contender = program
        self._observer.on_contender(program)
        try:
            return await self._judging.confirm(program, patient=patient)
        finally:
            self._run.contender = None

    async def _claim(self, program: Program, patient: bool) -> Claim:
        """Climb from the cell on its own island over the cell among all islands to the best of the run."""
        population = self._run.population
        elite = population.elite(program)
        if program.number == SEED_NUMBER:
            return self._seed_claim(program, elite)
        if elite is None:
            return Claim()
        won: list[CellRecord] = []
        for island in (program.island, GLOBAL):
            occupant = population.archive(island).occupant(elite.cell)
            result = await contest(self._run, self._judging, program, elite, occupant, patient=patient)
            if not result.won:
                return Claim(tuple(won), failed=result.failed)
            won.append(CellRecord(island, elite.cell, elite.number))
        result = await contest(self._run, self._judging, program, elite, population.best, patient=patient)
        return Claim(tuple(won), best=result.won, failed=result.failed)

    def _seed_claim(self, program: Program, elite: Elite | None) -> Claim:
        """Every island starts from the seed, which is the first best."""
        if elite is None:
            raise UsageError(self._seed_problem(program))
        places = (program.island, GLOBAL, *(i.number for i in self._run.population.islands if i.number))
        return Claim(tuple(CellRecord(place, elite.cell, elite.number) for place in places), best=True)

    def _seed_problem(self, program: Program) -> str:
        task, verdict = self._run.task, program.verdict
        if verdict is None or verdict.status is not Status.PASSED:
            said = f"{verdict.status.value}: {verdict.message}" if verdict else "no verdict"
            return f"task {task.name}: the seed program {task.seed_program} does not pass: {said}"
        if verdict.score is None:
            why = verdict.timing.reason if isinstance(verdict.timing, Untimed) else verdict.message
            return f"task {task.name}: the seed program {task.seed_program} passes but has no score: {why}"
        missing = self._run.population.grid.missing(verdict.measures)
        found = ", ".join(sorted(verdict.measures)) or "none"
        return f"task {task.name}: archive measure {missing!r} is not among those the evaluator returned ({found})"
