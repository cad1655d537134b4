"""The storage on SQLAlchemy: SQLite and PostgreSQL alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update

from evaluators.evaluation import Evaluation
from evaluators.profile import Profile
from evolve.database.codec import duel_row, evaluation_row, profile_row, program_row, storable, timing_rows
from evolve.database.engine import naming_failures
from evolve.database.model_statements import END_BY_PROGRAM
from evolve.database.model_writing import ModelWriter
from evolve.database.queries import CONFIRMATION, SEARCH
from evolve.database.records import (
    GLOBAL,
    CellRecord,
    DuelRecord,
    Event,
    Finish,
    IslandRecord,
    LedgerEntry,
    Migrations,
    NewRun,
    Reset,
)
from evolve.database.schema import (
    artifacts,
    cells,
    duels,
    islands,
    migrations,
    profiles,
    programs,
    runs,
    timings,
)
from evolve.database.statements import (
    ADD_EVALUATION,
    ADD_PROGRAM,
    ATTEMPT,
    FINISH,
    FINISH_DUPLICATE,
    JUDGE,
    LOCK_RUN,
    PROMISE,
    SET_CELL,
    SET_ISLAND,
    TAKE_ANSWER,
)
from evolve.errors import StorageError
from evolve.types import AddStatus, Program, ProgramState, RunStatus


class SqlStorage(ModelWriter):
    """One run in a database behind SQLAlchemy, for the one process that writes it."""

    @classmethod
    def create(cls, engine: Engine, new: NewRun, clock: Callable[[], float] = time.time) -> SqlStorage:
        """Store a new run with its islands and return its storage."""
        now = clock()
        with naming_failures(engine), engine.execution_options(write=True).begin() as connection:
            row = {
                "name": new.name,
                "task_name": new.task_name,
                "task_hash": new.task_hash,
                "settings": new.settings.model_dump_json(),
                "config": new.config,
                "task": new.task,
                "status": RunStatus.INTERRUPTED.value,
                "reason": "not started yet",
                "created_at": now,
                "heartbeat_at": now,
                "active_s": 0.0,
                "migration_round": 0,
            }
            run_id = connection.execute(insert(runs).returning(runs.c.id), row).scalar_one()
            numbers = (GLOBAL, *range(new.settings.search.islands))
            counters = {"run_id": run_id, "finished": 0, "stagnant": 0, "resets": 0}
            connection.execute(insert(islands), [{**counters, "number": number} for number in numbers])
        storage = cls(engine, run_id, clock)
        storage.add_event(Event("created", new.task_name))
        return storage

    def set_status(self, status: RunStatus, reason: str, active_s: float) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._update_run(
                connection, status=status.value, reason=reason, active_s=active_s, heartbeat_at=self._clock()
            )
            self._add_events(connection, [Event(status.value, reason)])

    def set_settings(self, settings: str, config: str) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._update_run(connection, settings=settings, config=config)
            self._add_events(connection, [Event("settings", settings)])

    def heartbeat(self, active_s: float, promised: int = 0) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._update_run(connection, active_s=active_s, heartbeat_at=self._clock(), promised=promised)

    def promise(self, candidates: int, fits: Callable[[int], bool] = lambda places: True) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        this = {"this": self._run_id}
        with self._write() as connection:
            self._prepared.execute(connection, LOCK_RUN, this)
            if fits(self._places(connection, self._clock())):
                self._prepared.execute(connection, PROMISE, {**this, "candidates": candidates})

    def add_program(
        self, program: Program, order: int | None = None, answer: int | None = None, promised: int | None = None
    ) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        at_once = order is not None and program.duplicate_of is not None
        if program.state is not (ProgramState.FINISHED if at_once else ProgramState.QUEUED):
            raise StorageError(f"program {program.number}: cannot be stored as {program.state.value}")
        now = self._clock()
        row = {
            **program_row(program),
            "run_id": self._run_id,
            "attempts": 0,
            "created_at": now,
            "finish_order": order,
            "finished_at": now if at_once else None,
            "placement": AddStatus.NOT_ADDED.value if at_once else None,
        }
        with self._write() as connection:
            self._add_text(connection, program.source)
            self._prepared.execute(connection, ADD_PROGRAM, row)
            if program.model is not None:
                this = {"run": self._run_id, "this": program.number, "now": now}
                self._prepared.execute(connection, END_BY_PROGRAM, this)
            if promised is not None:
                self._prepared.execute(connection, PROMISE, {"this": self._run_id, "candidates": promised})
            if answer is not None:
                taken = {"run": self._run_id, "this": answer, "became": program.number}
                if connection.execute(TAKE_ANSWER, taken).rowcount != 1:
                    raise StorageError(f"answer {answer}: missing, or a program already")

    def add_evaluation(
        self, number: int, evaluation: Evaluation, ledger: LedgerEntry, *, judge_failed: bool = False
    ) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._step(connection, JUDGE, number, "not queued", now=self._clock())
            self._add_evaluation(connection, number, SEARCH, evaluation, judge_failed)
            self._add_ledger(connection, ledger)

    def add_confirmation(
        self, number: int, evaluation: Evaluation, ledger: LedgerEntry, *, judge_failed: bool = False
    ) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._require_judged(connection, number, "confirmed")
            self._add_evaluation(connection, number, CONFIRMATION, evaluation, judge_failed)
            self._add_ledger(connection, ledger)

    def add_profile(self, number: int, profile: Profile, ledger: LedgerEntry) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._require_judged(connection, number, "profiled")
            row = {**profile_row(profile), "run_id": self._run_id, "program": number, "created_at": self._clock()}
            connection.execute(insert(profiles), row)
            self._add_ledger(connection, ledger)

    def add_duel(self, duel: DuelRecord, ledger: LedgerEntry) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            row = {**duel_row(duel), "run_id": self._run_id, "created_at": self._clock()}
            connection.execute(insert(duels), row)
            self._add_ledger(connection, ledger)

    def add_attempt(self, number: int, ledger: LedgerEntry, text: str) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._step(connection, ATTEMPT, number, "finished or missing")
            self._add_ledger(connection, ledger)
            self._add_events(connection, [Event("infra", text, number)])

    def finish(self, finish: Finish) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        now = self._clock()
        with self._write() as connection:
            placed = {"placed": finish.placement.value, "nth": finish.order, "now": now}
            self._step(connection, FINISH, finish.number, "not judged", **placed)
            for number, order in finish.duplicates:
                waiting = {"original": finish.number, "nth": order, "now": now}
                self._step(connection, FINISH_DUPLICATE, number, "no waiting duplicate", **waiting)
            self._set_cells(connection, finish.cells)
            if finish.island is not None:
                self._set_island(connection, finish.island)
            if finish.best:
                self._update_run(connection, best=finish.number)
            self._add_events(connection, finish.events)

    def migrate(self, migrations_: Migrations) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = [
            {
                "run_id": self._run_id,
                "round": move.round,
                "source": move.source,
                "target": move.target,
                "program": move.program,
                "placement": move.placement.value,
            }
            for move in migrations_.moves
        ]
        with self._write() as connection:
            current = connection.execute(select(runs.c.migration_round).where(runs.c.id == self._run_id)).scalar_one()
            if migrations_.round != current + 1:
                raise StorageError(f"migration round {migrations_.round} does not follow {current}")
            if rows:
                connection.execute(insert(migrations), rows)
            self._set_cells(connection, migrations_.cells)
            self._update_run(connection, migration_round=migrations_.round)

    def reset(self, reset: Reset) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            here = (cells.c.run_id == self._run_id, cells.c.island == reset.island.number)
            connection.execute(delete(cells).where(*here))
            self._set_cells(connection, [reset.cell])
            self._set_island(connection, reset.island)
            self._add_events(connection, [Event("reset", reset.text, reset.cell.program)])

    def add_ledger(self, entry: LedgerEntry) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._add_ledger(connection, entry)

    def add_event(self, event: Event) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._add_events(connection, [event])

    def _require_judged(self, connection: Connection, number: int, what: str) -> None:
        statement = select(programs.c.state).where(programs.c.run_id == self._run_id, programs.c.number == number)
        if connection.execute(statement).scalar_one_or_none() != ProgramState.JUDGED.value:
            raise StorageError(f"program {number}: not judged, so it cannot be {what}")

    def _step(self, connection: Connection, statement: Any, number: int, refusal: str, **values: object) -> None:
        """Update one program where its state allows it, or raise."""
        row = {"run": self._run_id, "this": number, **values}
        result = self._prepared.execute(connection, statement, row)
        if result.rowcount != 1:
            raise StorageError(f"program {number}: {refusal}")

    def _add_evaluation(
        self, connection: Connection, number: int, kind: str, evaluation: Evaluation, judge_failed: bool
    ) -> None:
        row = {
            **evaluation_row(evaluation),
            "run_id": self._run_id,
            "program": number,
            "kind": kind,
            "judge_failed": judge_failed,
            "environment_hash": self._environment_hash(connection, evaluation.environment),
            "created_at": self._clock(),
        }
        evaluation_id = self._prepared.execute(connection, ADD_EVALUATION, row).scalar_one()
        if rows := timing_rows(evaluation):
            connection.execute(insert(timings), [{**row, "evaluation_id": evaluation_id} for row in rows])
        for position, artifact in enumerate(evaluation.artifacts):
            connection.execute(
                insert(artifacts),
                {
                    "evaluation_id": evaluation_id,
                    "position": position,
                    "run_id": self._run_id,
                    "name": storable(artifact.name),
                    "text_hash": self._add_text(connection, storable(artifact.text)),
                    "truncated": artifact.truncated,
                },
            )

    def _update_run(self, connection: Connection, **values: object) -> None:
        connection.execute(update(runs).where(runs.c.id == self._run_id).values(**values))

    def _set_island(self, connection: Connection, island: IslandRecord) -> None:
        values = {"new_finished": island.finished, "new_stagnant": island.stagnant, "new_resets": island.resets}
        self._prepared.execute(connection, SET_ISLAND, {"run": self._run_id, "this": island.number, **values})

    def _set_cells(self, connection: Connection, new: Iterable[CellRecord]) -> None:
        for cell in new:
            key = {"run": self._run_id, "at": cell.island, "which": cell.cell}
            if connection.execute(SET_CELL, {**key, "elite": cell.program}).rowcount == 0:
                row = {"run_id": self._run_id, "island": cell.island, "cell": cell.cell, "program": cell.program}
                connection.execute(insert(cells), row)
