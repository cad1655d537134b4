"""A run: its directory, database, random streams, budget and population; the ``ask``/``tell`` core of the search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from evaluators.evaluation import Status
from evaluators.source import source_hash
from evaluators.task import Task
from evolve.archive import Elite
from evolve.asking import Asking
from evolve.bans import Bans
from evolve.budget import Charge, Clock
from evolve.database.codec import storable
from evolve.database.mail import Answer
from evolve.database.model_records import Ending
from evolve.database.records import (
    CellRecord,
    Event,
    Finish,
    MigrationRecord,
    Migrations,
    NewRun,
    Reset,
)
from evolve.database.steering import Steering
from evolve.database.steps import Step, StepKind
from evolve.errors import EvolveError
from evolve.experience import Experience
from evolve.intake import answered, finished_twin, new_program, seed_proposal
from evolve.island import Island
from evolve.observer import Progress
from evolve.opening import closed_on_error, create_storage, open_storage
from evolve.run_directory import MOMENT_S
from evolve.settings import RunSettings
from evolve.types import AddStatus, Dropped, Program, ProgramState, Proposal, ProposeContext, RunStatus, StopReason

SEED_NUMBER = 1
"""The number of the program every run starts from."""


class Run(Asking):
    """A run open for writing. Use as a context manager: leaving it closes the database and gives the lock back.

    Every change is one transaction in the database first, then in memory; so what is in memory can always be rebuilt.
    """

    @classmethod
    def create(
        cls,
        directory: Path,
        task: Task,
        settings: RunSettings,
        *,
        url: str | None = None,
        config: str = "",
        clock: Clock = time.monotonic,
    ) -> Self:
        """Make ``directory`` (it must not exist or be empty) and a run in it; nothing is left behind on an error.

        Args:
            directory: Where ``run.db``, ``config.toml``, ``best.<ext>``, ``run.log`` and ``lock`` go.
            task: What to optimise.
            settings: The search's settings and caps; stored.
            url: SQLAlchemy URL of the database; ``None`` for SQLite in the directory.
            config: The resolved configuration as TOML, without secrets; stored and written to ``config.toml``.
            clock: Monotonic seconds, for the cap on wall-clock time.

        Raises:
            UsageError: the directory is not empty or cannot be written, or the database cannot be used.
        """
        new = NewRun(directory.name, task.name, task.hash, settings, config, task.model_dump_json(exclude={"folder"}))
        folder, storage = create_storage(directory, new, url)
        with closed_on_error(folder, storage):
            return cls(folder, storage, task, settings, clock)

    @classmethod
    def open(
        cls,
        directory: Path,
        task: Task,
        settings: RunSettings | None = None,
        *,
        url: str | None = None,
        config: str | None = None,
        clock: Clock = time.monotonic,
        patience_s: float = MOMENT_S,
    ) -> Self:
        """Open an existing run to go on with it, with other ``settings`` (for instance raised caps) where given.

        A process that has it open is waited for ``patience_s``: agents take runs for moments.

        Raises:
            UsageError: there is no run, its task is another (hash), its database is of another version, another
                process has it open, or ``settings`` change what may not change (seed, islands, migration_every).
        """
        folder, storage, stored = open_storage(directory, task, settings, url, config, patience_s)
        with closed_on_error(folder, storage):
            return cls(folder, storage, task, stored, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and give the lock back."""
        self.storage.close()
        self.directory.release()

    def tell(self, context: ProposeContext, proposal: Proposal | Dropped | None) -> Program | None:
        """Store what was proposed: the program is ``queued`` for the judge, or is a duplicate.

        A duplicate has ``duplicate_of`` set. It is ``finished`` at once where its original is; else it finishes with
        it. ``None`` (nothing to offer, or the attempt was dropped) gives the reservation back; its number stays unused.
        """
        reservation = self._asked.pop(context.number)
        if isinstance(proposal, Dropped):
            self.storage.end_dialogue(Ending(context.number, proposal.reason, proposal.message, proposal.learnt))
        if not isinstance(proposal, Proposal):
            self.storage.note(Step(StepKind.PASS, context.number))
            self.budget.settle(reservation)
            return None
        left = self.budget.promised.candidates - 1
        program = self._store(context.number, context.island, proposal, left, variant_of=context.variant_of)
        self.variants += context.variant_of is not None
        self.budget.settle(reservation, Charge(candidates=1))
        return program

    def add_seed(self) -> Program | StopReason:
        """Store the task's seed program, the first of every run, or say which cap forbids it."""
        return self.stop_reason() or self._add(0, seed_proposal(self.task))

    def take(self, answer: Answer) -> Program | StopReason:
        """Make an agent's answer the next program, or say which cap forbids it; it then goes on waiting."""
        placed = answer.lease is not None and answer.late_s is None
        return self.hand_in(answered(answer), answer.island, answer.id, placed=placed)

    def hand_in(
        self, proposal: Proposal, island: int | None, answer: int | None = None, *, placed: bool = False
    ) -> Program | StopReason:
        """Make a proposal that nobody asked for the next program, or say which cap forbids it.

        ``island`` is where it belongs; ``None`` leaves that to the search. ``placed``: it has a place under the cap on
        candidates, by a lease.
        """
        refusal = self.budget.reached() or self._refusal(Charge(candidates=1), placed=placed)
        if refusal is not None:
            return refusal
        self.storage.note(Step(StepKind.TAKE, self.next_number, island))
        turn = self._turn(self.next_number)
        return self._add(self.population.next_island(turn).number if island is None else island, proposal, answer)

    def obey(self, steering: Steering) -> None:
        """Take over what people told the run: bans, paused islands, and the caps as they are stored now."""
        self.bans = Bans(steering.bans)
        self.population.obey(steering, self.program)
        caps = self.storage.run().settings.caps
        self.settings = self.settings.model_copy(update={"caps": caps})
        self.budget.caps = caps

    def _add(self, island: int, proposal: Proposal, answer: int | None = None) -> Program:
        program = self._store(self.next_number, island, proposal, self.budget.promised.candidates, answer=answer)
        self.next_number += 1
        self.budget.book(Charge(candidates=1))
        return program

    def _store(
        self,
        number: int,
        island: int,
        proposal: Proposal,
        on_their_way: int,
        *,
        answer: int | None = None,
        variant_of: int | None = None,
    ) -> Program:
        add = partial(
            self.storage.add_program,
            answer=answer,
            promised=None if self.budget.caps.candidates is None else on_their_way,
        )
        twin = self._twin(proposal)
        generation = 1 + max((self.program(n).generation for n in proposal.parents), default=-1)
        program = replace(new_program(number, island, generation, proposal, twin), variant_of=variant_of)
        self.storage.note(Step(StepKind.TELL, number))
        if twin is None:
            add(program)
            self._equivalents.add(number, program.source, program.language)
        elif program.state is ProgramState.QUEUED:
            add(program)
            self._twins[twin[0]].append(program)
        else:
            add(program, order=self.tally.finished + 1)
            self.tally.add_duplicates(1)
            return finished_twin(program, self.program(twin[0]))
        return program

    def _twin(self, proposal: Proposal) -> tuple[int, ProgramState] | None:
        """The program that is judged in a proposal's place, with its state; ``None`` where there is none equal to it.

        Texts that somebody wrote are equal up to layout, comments and local names. Of values that were put in a known
        text the whole text is compared, which is as good and takes microseconds.
        """
        source = storable(proposal.source)
        twin = self.storage.find(source_hash(source), proposal.language)
        if twin is not None or proposal.model is None:
            return twin
        number = self._equivalents.stored(source, proposal.language)
        return None if number is None else (number, self.program(number).state)

    def requeue_twin(self, twin: Program) -> None:
        """After a crash: a stored duplicate goes on waiting for its original."""
        if twin.duplicate_of is None:
            raise EvolveError(f"program {twin.number} is no duplicate")
        self._twins[twin.duplicate_of].append(twin)

    def finish(self, program: Program, cells: tuple[CellRecord, ...], *, best: bool = False) -> list[Program]:
        """``judged`` → ``finished``: store what placing a program changed; ``cells`` are those it takes.

        Returns:
            The finished program, and after it the duplicates that finish with it.
        """
        elite = self.population.elite(program) if cells else None
        if cells and elite is None:
            raise EvolveError(f"program {program.number} did not pass, so it can take no cell")
        placement = self.population.outlook(cells)
        island = self.population.islands[program.island]
        record = island.counted(elite)
        order = self.tally.finished + 1
        twins = self._twins.pop(program.number, [])
        done = replace(program, state=ProgramState.FINISHED, placement=placement)
        self.storage.note(Step(StepKind.FINISH, program.number))
        self.storage.finish(
            Finish(
                number=program.number,
                placement=placement,
                order=order,
                cells=cells,
                island=record,
                best=best,
                duplicates=tuple((twin.number, order + 1 + i) for i, twin in enumerate(twins)),
                events=(Event("best", f"score {done.score:.6g}", program.number),) if best else (),
            )
        )
        island.record = record
        self._count(done, len(twins), best=best)
        if elite is not None:
            self.population.put(elite, cells)
            if best:
                self.population.best = elite
                self.directory.write_best(done.source, done.language)
        self._programs.keep(done)
        if self._experience is not None:
            duels = self.storage.duels(done.number)
            self._experience.learn(done, {d.occupant: d.margin for d in duels if d.margin is not None})
        return [done, *(finished_twin(twin, done) for twin in twins)]

    def migrate(self, moves: Sequence[MigrationRecord], elites: Sequence[Elite]) -> None:
        """Store a round of migration and give the winners among ``elites`` (in the order of ``moves``) their cells."""
        won = [
            (elite, CellRecord(move.target, elite.cell, elite.number))
            for move, elite in zip(moves, elites, strict=True)
            if move.placement is not AddStatus.NOT_ADDED
        ]
        self.storage.note(Step(StepKind.MIGRATE, other=self.migration_round + 1))
        self.storage.migrate(Migrations(self.migration_round + 1, tuple(moves), tuple(cell for _, cell in won)))
        self.migration_round += 1
        for elite, cell in won:
            self.population.put(elite, (cell,))

    def reset(self, island: Island, founder: Elite) -> None:
        """Let an island start over from one elite of another."""
        record = island.restarted()
        text = f"island {island.number} starts over from program {founder.number}"
        self.storage.note(Step(StepKind.RESET, founder.number, island.number))
        self.storage.reset(Reset(record, CellRecord(island.number, founder.cell, founder.number), text))
        island.record = record
        island.archive.restart(founder)

    def set_status(self, status: RunStatus, reason: str = "") -> None:
        """Record what the run is doing, with the time it has been active."""
        self.storage.set_status(status, reason, self.budget.spent.seconds)
        self.status = status

    def heartbeat(self) -> None:
        """Say in the database that this process lives."""
        self.storage.heartbeat(self.budget.spent.seconds, self.budget.promised.candidates)

    def remember(self) -> Experience:
        """What the run has been through; kept up to date from the first time that it is asked for."""
        if self._experience is None:
            self._experience = Experience.stored(self.task, self.storage)
        return self._experience

    def progress(self) -> Progress:
        """What a display shows, in constant time. The loop adds what is in flight."""
        spent = self.budget.spent
        return Progress(
            status=self.status,
            programs=spent.charge.candidates,
            finished=self.tally.finished,
            duplicates=self.tally.duplicates,
            verdicts=self.tally.verdicts,
            spent=spent,
            caps=self.budget.caps,
            best=self.best(),
            contender=self.contender,
        )

    def _count(self, done: Program, twins: int, *, best: bool) -> None:
        verdict = done.verdict
        if verdict is None:
            raise EvolveError(f"program {done.number} is finished without a verdict")
        self.tally.add(verdict.status, twins)
        if best and verdict.score is not None:
            self.budget.note_best(verdict.score)
        elif verdict.status is Status.PASSED:
            self.budget.note_passed()
