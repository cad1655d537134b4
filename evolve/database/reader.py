"""The reading half of the storage: used beside the writing process as well as inside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Engine, Executable, bindparam, case, func, select
from sqlalchemy.exc import DBAPIError

from evaluators.errors import UsageError
from evaluators.evaluation import Artifact, Evaluation, Status
from evaluators.task import Language
from evolve.budget import Charge
from evolve.database.codec import duel_of, evaluation_of, program_of
from evolve.database.engine import naming_failures
from evolve.database.mail import Answer, Lease, MailCount
from evolve.database.model_codec import dialogue_of, ending_of, model_call_of
from evolve.database.model_queries import (
    ACCEPTED,
    DIALOGUE_DOLLARS,
    DIALOGUES,
    MODEL_ANSWER,
    MODEL_CALLS,
    MODEL_SPENDING,
    OPEN_DIALOGUES,
)
from evolve.database.model_records import PROGRAM, Dialogue, Ending, ModelCall, ModelSpending
from evolve.database.prepared import PreparedStatements
from evolve.database.queries import (
    ANSWERS,
    ARTIFACTS,
    DUELS,
    FIND,
    LEASES,
    MAIL_COUNT,
    ONE_PROGRAM,
    OUTCOMES,
    PROGRAMS,
    SEARCH,
    SOURCES,
    STEERING,
    TABLE,
    VERDICTS,
)
from evolve.database.records import (
    CellRecord,
    DuelRecord,
    Event,
    IslandRecord,
    LedgerEntry,
    MigrationRecord,
    Migrations,
    RunRecord,
    Totals,
)
from evolve.database.schema import (
    answers,
    cells,
    dialogues,
    evaluations,
    events,
    islands,
    leases,
    ledger,
    migrations,
    model_calls,
    programs,
    runs,
    steps,
)
from evolve.database.steering import Steer, Steering, SteerRecord
from evolve.database.steps import Step, StepKind
from evolve.settings import RunSettings
from evolve.types import AddStatus, Program, ProgramState, RunStatus

T = TypeVar("T")

BATCH = 200
"""Programs read at a time when streaming: bounds memory, and no read holds a snapshot for long."""


class StorageReader:
    """Reads one run. See :class:`evolve.database.storage.Storage` for what every method promises."""

    def __init__(self, engine: Engine, run_id: int) -> None:
        """Read run ``run_id`` of the database behind ``engine``."""
        self._engine = engine
        self._run_id = run_id
        with naming_failures(engine):
            self._reading = engine.connect()
        self._prepared = PreparedStatements()
        self._shown = engine.url.render_as_string(hide_password=True)

    def run(self) -> RunRecord:
        """See :class:`~evolve.database.storage.Storage`."""
        found = self._rows(select(runs).where(runs.c.id == self._run_id))
        if not found:
            raise UsageError(f"database {self._shown}: holds no run number {self._run_id}; check the name")
        row = dict(found[0])
        try:
            row["settings"] = RunSettings.model_validate_json(row["settings"])
        except ValidationError:
            raise UsageError(f"database {self._shown}: the settings of run {self._run_id} are damaged") from None
        row["status"] = RunStatus(row["status"])
        return RunRecord(**row)

    def program(self, number: int) -> Program:
        """See :class:`~evolve.database.storage.Storage`."""
        found = self._assemble(self._rows(ONE_PROGRAM, number=number))
        if not found:
            raise KeyError(f"no program {number} in this run")
        return found[0]

    def programs(self, *, state: ProgramState | None = None, proposer: str | None = None) -> Iterator[Program]:
        """See :class:`~evolve.database.storage.Storage`."""
        key = programs.c.finish_order if state is ProgramState.FINISHED else programs.c.number
        statement = PROGRAMS.where(key > bindparam("after")).order_by(key).limit(BATCH)
        if state is not None:
            statement = statement.where(programs.c.state == state.value)
        if proposer is not None:
            statement = statement.where(programs.c.proposer == proposer)
        after = 0
        while rows := self._rows(statement, after=after):
            yield from self._assemble(rows)
            after = rows[-1][key.name]

    def sources(self) -> Iterator[tuple[int, str, Language]]:
        """See :class:`~evolve.database.storage.Storage`."""
        after = 0
        while rows := self._rows(SOURCES, after=after, limit=BATCH):
            yield from ((row["number"], row["text"], cast(Language, row["language"])) for row in rows)
            after = rows[-1]["number"]

    def unfinished(self) -> list[Program]:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = self._rows(PROGRAMS.where(programs.c.state != ProgramState.FINISHED.value))
        judged = [row for row in rows if row["state"] == ProgramState.JUDGED.value]
        queued = [row for row in rows if row["state"] == ProgramState.QUEUED.value]
        judged.sort(key=lambda row: row["evaluation_id"])
        queued.sort(key=lambda row: row["number"])
        return self._assemble(judged + queued)

    def variants(self, number: int) -> list[Program]:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = PROGRAMS.where(programs.c.variant_of == bindparam("structure")).order_by(programs.c.number)
        return self._assemble(self._rows(statement, structure=number))

    def find(self, source_hash: str, language: Language) -> tuple[int, ProgramState] | None:
        """See :class:`~evolve.database.storage.Storage`."""
        row = {"run": self._run_id, "source_hash": source_hash, "language": language}
        found = self._read(lambda: self._prepared.execute(self._reading, FIND, row).first())
        return (found[0], ProgramState(found[1])) if found else None

    def attempts(self, number: int) -> int:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = select(programs.c.attempts).where(programs.c.run_id == self._run_id, programs.c.number == number)
        return int(self._rows(statement)[0]["attempts"])

    def duels(self, challenger: int) -> list[DuelRecord]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [duel_of(row) for row in self._rows(DUELS, challenger=challenger)]

    def islands(self) -> list[IslandRecord]:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = select(*islands.c["number", "finished", "stagnant", "resets"])
        statement = statement.where(islands.c.run_id == self._run_id, islands.c.number >= 0).order_by(islands.c.number)
        return [IslandRecord(**row) for row in self._rows(statement)]

    def cells(self) -> list[CellRecord]:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = select(*cells.c["island", "cell", "program"])
        statement = statement.where(cells.c.run_id == self._run_id).order_by(cells.c.island, cells.c.cell)
        return [CellRecord(**row) for row in self._rows(statement)]

    def totals(self) -> Totals:
        """See :class:`~evolve.database.storage.Storage`."""
        verdicts, since_best = self._verdicts()
        counts = self._rows(
            select(
                func.count().label("programs"),
                func.coalesce(func.max(programs.c.number), 0).label("last"),
                func.count(programs.c.finish_order).label("finished"),
                func.count(case((programs.c.finish_order.is_not(None), programs.c.duplicate_of))).label("duplicates"),
                func.count(programs.c.variant_of).label("variants"),
            ).where(programs.c.run_id == self._run_id)
        )[0]
        sums = self._rows(
            select(
                *(func.coalesce(func.sum(ledger.c[name]), 0).label(name) for name in ("device_s", "dollars", "tokens"))
            ).where(ledger.c.run_id == self._run_id)
        )[0]
        dearest = self._rows(
            select(func.coalesce(func.max(evaluations.c.device_s), 0.0).label("device_s")).where(
                evaluations.c.run_id == self._run_id, evaluations.c.kind == SEARCH
            )
        )[0]
        talked = self._rows(
            select(func.max(dialogues.c.number).label("last")).where(dialogues.c.run_id == self._run_id)
        )[0]["last"]
        return Totals(
            charge=Charge(counts["programs"], float(sums["device_s"]), float(sums["dollars"]), int(sums["tokens"])),
            next_number=max(counts["last"], talked or 0) + 1,
            finished=counts["finished"],
            duplicates=counts["duplicates"],
            variants=counts["variants"],
            verdicts=verdicts,
            since_best=since_best,
            largest_device_s=float(dearest["device_s"]),
        )

    def _verdicts(self) -> tuple[dict[str, int], int]:
        rows = self._rows(VERDICTS)
        since_best = sum(int(row["later"]) for row in rows if row["status"] == Status.PASSED.value)
        return {row["status"]: int(row["number"]) for row in rows}, since_best

    def table(self) -> list[dict[str, Any]]:
        """One flat row a program, by number, for looking at many at once: no sources, no documents."""
        return [dict(row) for row in self._rows(TABLE)]

    def outcomes(self) -> list[Mapping[str, Any]]:
        """See :class:`~evolve.database.storage.Storage`."""
        return self._rows(OUTCOMES)

    def dialogue_dollars(self, number: int | None = None) -> dict[int, float]:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = DIALOGUE_DOLLARS if number is None else DIALOGUE_DOLLARS.where(model_calls.c.program == number)
        return {row["program"]: float(row["dollars"]) for row in self._rows(statement)}

    def ledger(self) -> Sequence[LedgerEntry]:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = self._rows(select(ledger).where(ledger.c.run_id == self._run_id).order_by(ledger.c.id))
        return [
            LedgerEntry(
                kind=row["kind"],
                charge=Charge(device_s=row["device_s"], dollars=row["dollars"], tokens=row["tokens"]),
                program=row["program"],
                build_s=row["build_s"],
                wall_s=row["wall_s"],
            )
            for row in rows
        ]

    def events(self) -> Sequence[Event]:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = select(*events.c["kind", "text", "program", "at"])
        return [
            Event(**row) for row in self._rows(statement.where(events.c.run_id == self._run_id).order_by(events.c.id))
        ]

    def steps(self) -> Sequence[Step]:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = select(*steps.c["kind", "program", "other", "text"]).where(steps.c.run_id == self._run_id)
        return [Step(**{**row, "kind": StepKind(row["kind"])}) for row in self._rows(statement.order_by(steps.c.id))]

    def model_calls(self) -> Iterator[ModelCall]:
        """See :class:`~evolve.database.storage.Storage`."""
        after = 0
        while rows := self._rows(MODEL_CALLS.where(model_calls.c.id > bindparam("after")).limit(BATCH), after=after):
            yield from map(model_call_of, rows)
            after = rows[-1]["id"]

    def model_answer(self, program: int, step: str) -> ModelCall | None:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = self._rows(MODEL_ANSWER, program=program, step=step)
        return model_call_of(rows[0]) if rows else None

    def model_spending(self) -> Sequence[ModelSpending]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [ModelSpending(**row) for row in self._rows(MODEL_SPENDING)]

    def accepted(self) -> dict[tuple[str, str], int]:
        """See :class:`~evolve.database.storage.Storage`."""
        return {(row["model"], row["operator"]): row["accepted"] for row in self._rows(ACCEPTED)}

    def dialogues(self) -> Sequence[Dialogue]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [dialogue_of(row) for row in self._rows(DIALOGUES)]

    def open_dialogues(self) -> Sequence[Dialogue]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [dialogue_of(row) for row in self._rows(OPEN_DIALOGUES)]

    def endings(self) -> Sequence[tuple[Dialogue, Ending]]:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = [row for row in self._rows(DIALOGUES) if row["outcome"] not in {None, PROGRAM}]
        rows.sort(key=lambda row: (row["ended_at"], row["number"]))
        return [(dialogue_of(row), ending_of(row)) for row in rows]

    def migrations(self) -> Sequence[Migrations]:
        """See :class:`~evolve.database.storage.Storage`."""
        names = ("round", "source", "target", "program", "placement")
        statement = select(*migrations.c[names]).where(migrations.c.run_id == self._run_id)
        rows = self._rows(statement.order_by(migrations.c.round, migrations.c.source))
        moves = [MigrationRecord(**{**row, "placement": AddStatus(row["placement"])}) for row in rows]
        return [Migrations(number, tuple(group), ()) for number, group in groupby(moves, key=lambda move: move.round)]

    def steering(self) -> Steering:
        """See :class:`~evolve.database.storage.Storage`."""
        return Steering.of(SteerRecord(**{**row, "kind": Steer(row["kind"])}) for row in self._rows(STEERING))

    def mail_count(self) -> MailCount:
        """See :class:`~evolve.database.storage.Storage`."""
        row = {"run": self._run_id}
        return MailCount(*self._read(lambda: self._prepared.execute(self._reading, MAIL_COUNT, row).one()))

    def waiting_answers(self) -> list[Answer]:
        """See :class:`~evolve.database.storage.Storage`."""
        return self._answers(answers.c.program.is_(None))

    def answer(self, number: int) -> Answer:
        """One answer.

        Raises:
            KeyError: there is none of that number.
        """
        found = self._answers(answers.c.id == number)
        if not found:
            raise KeyError(f"no answer {number} in this run")
        return found[0]

    def lease(self, number: int) -> Lease:
        """One lease.

        Raises:
            KeyError: there is none of that number.
        """
        found = self._rows(LEASES.where(leases.c.id == number))
        if not found:
            raise KeyError(f"no lease {number} in this run")
        return Lease.of(found[0])

    def open_leases(self, now: float) -> list[Lease]:
        """See :class:`~evolve.database.storage.Storage`."""
        answered = select(answers.c.id).where(answers.c.lease == leases.c.id).exists()
        return [Lease.of(row) for row in self._rows(LEASES.where(leases.c.expires_at > now, ~answered))]

    def count_leases(self) -> int:
        """How many leases were ever given."""
        counted = select(func.count().label("number")).select_from(leases).where(leases.c.run_id == self._run_id)
        return int(self._rows(counted)[0]["number"])

    def _answers(self, condition: ColumnElement[bool]) -> list[Answer]:
        return [Answer.of(row) for row in self._rows(ANSWERS.where(condition))]

    def close(self) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        self._reading.close()
        self._engine.dispose()

    def _rows(self, statement: Executable, **parameters: object) -> list[Mapping[str, Any]]:
        values = {"run": self._run_id, **parameters}
        return self._read(lambda: [dict(row) for row in self._reading.execute(statement, values).mappings()])

    def _read(self, read: Callable[[], T]) -> T:
        """What ``read`` finds; looked for again on a new connection where the server broke the old one off."""
        with naming_failures(self._engine):
            try:
                return self._read_once(read)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return self._read_once(read)

    def _read_once(self, read: Callable[[], T]) -> T:
        try:
            return read()
        finally:
            self._reading.rollback()  # No snapshot is held between two calls.

    def _assemble(self, rows: Sequence[Mapping[str, Any]]) -> list[Program]:
        ids = [row[name] for row in rows for name in ("evaluation_id", "confirmation_id") if row[name] is not None]
        left = self._artifacts(ids)

        def verdict(row: Mapping[str, Any], prefix: str, environment: str) -> Evaluation | None:
            if row[prefix] is None:
                return None
            return evaluation_of(row[prefix], row[environment], left.get(row[f"{prefix}_id"], ()))

        return [
            program_of(
                row,
                verdict(row, "evaluation", "environment"),
                verdict(row, "confirmation", "confirmation_environment"),
            )
            for row in rows
        ]

    def _artifacts(self, ids: Sequence[int]) -> Mapping[int, list[Artifact]]:
        found: dict[int, list[Artifact]] = defaultdict(list)
        if ids:
            for row in self._rows(ARTIFACTS, ids=list(ids)):
                artifact = Artifact(name=row["name"], text=row["text"], truncated=row["truncated"])
                found[row["evaluation_id"]].append(artifact)
        return found


def list_runs(engine: Engine) -> Iterable[RunRecord]:
    """Every run in a database, oldest first."""
    with naming_failures(engine), engine.connect() as connection:
        ids = list(connection.execute(select(runs.c.id).order_by(runs.c.id)).scalars())
    return [StorageReader(engine, run_id).run() for run_id in ids]
