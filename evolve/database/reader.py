"""The reading half of the storage: used beside the writing process as well as inside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Engine, Executable, Select, and_, bindparam, case, func, select

from evaluators.evaluation import Artifact, Evaluation
from evaluators.task import Language
from evolve.budget import Charge
from evolve.database.codec import duel_of, evaluation_of, program_of
from evolve.database.records import (
    CellRecord,
    DuelRecord,
    Event,
    IslandRecord,
    LedgerEntry,
    MigrationRecord,
    Migrations,
    ModelCall,
    RunRecord,
    Totals,
)
from evolve.database.schema import (
    artifacts,
    cells,
    duels,
    evaluations,
    events,
    islands,
    ledger,
    migrations,
    model_calls,
    programs,
    runs,
    texts,
)
from evolve.settings import RunSettings
from evolve.types import AddStatus, Program, ProgramState, RunStatus

BATCH = 200
"""Programs read at a time when streaming: bounds memory, and no read holds a snapshot for long."""

SEARCH, CONFIRMATION = "search", "confirmation"
"""The two kinds of evaluation a program can have."""


def _select_programs() -> Select[Any]:
    first, second = evaluations.alias("first"), evaluations.alias("second")
    first_env, second_env = texts.alias("first_env"), texts.alias("second_env")
    source = texts.alias("source")
    judged_as = func.coalesce(programs.c.duplicate_of, programs.c.number)

    def verdict(table: Any, kind: str) -> Any:
        return and_(table.c.run_id == programs.c.run_id, table.c.program == judged_as, table.c.kind == kind)

    def stored(table: Any, run_id: Any, key: Any) -> Any:
        return and_(table.c.run_id == run_id, table.c.hash == key)

    joined = (
        programs.join(source, stored(source, programs.c.run_id, programs.c.source_hash))
        .outerjoin(first, verdict(first, SEARCH))
        .outerjoin(first_env, stored(first_env, first.c.run_id, first.c.environment_hash))
        .outerjoin(second, verdict(second, CONFIRMATION))
        .outerjoin(second_env, stored(second_env, second.c.run_id, second.c.environment_hash))
    )
    return (
        select(
            *programs.c,
            source.c.text.label("source"),
            first.c.id.label("evaluation_id"),
            first.c.document.label("evaluation"),
            first_env.c.text.label("environment"),
            first.c.judge_failed.label("judge_failed"),
            second.c.id.label("confirmation_id"),
            second.c.document.label("confirmation"),
            second_env.c.text.label("confirmation_environment"),
            second.c.judge_failed.label("confirmation_judge_failed"),
        )
        .select_from(joined)
        .where(programs.c.run_id == bindparam("run"))
    )


_PROGRAMS = _select_programs()
_ONE_PROGRAM = _PROGRAMS.where(programs.c.number == bindparam("number"))
_FIND = select(programs.c.number, programs.c.state).where(
    programs.c.run_id == bindparam("run"),
    programs.c.source_hash == bindparam("source_hash"),
    programs.c.language == bindparam("language"),
    programs.c.duplicate_of.is_(None),
)
_ARTIFACTS = (
    select(artifacts.c.evaluation_id, artifacts.c.name, texts.c.text, artifacts.c.truncated)
    .join(texts, and_(texts.c.run_id == artifacts.c.run_id, texts.c.hash == artifacts.c.text_hash))
    .where(artifacts.c.evaluation_id.in_(bindparam("ids", expanding=True)))
    .order_by(artifacts.c.evaluation_id, artifacts.c.position)
)
_DUELS = (
    select(duels)
    .where(duels.c.run_id == bindparam("run"), duels.c.challenger == bindparam("challenger"))
    .order_by(duels.c.id)
)


class StorageReader:
    """Reads one run. See :class:`evolve.database.storage.Storage` for what every method promises."""

    def __init__(self, engine: Engine, run_id: int) -> None:
        """Read run ``run_id`` of the database behind ``engine``."""
        self._engine = engine
        self._run_id = run_id

    def run(self) -> RunRecord:
        """See :class:`~evolve.database.storage.Storage`."""
        row = dict(self._rows(select(runs).where(runs.c.id == self._run_id))[0])
        row["settings"] = RunSettings.model_validate_json(row["settings"])
        row["status"] = RunStatus(row["status"])
        return RunRecord(**row)

    def program(self, number: int) -> Program:
        """See :class:`~evolve.database.storage.Storage`."""
        found = self._assemble(self._rows(_ONE_PROGRAM, number=number))
        if not found:
            raise KeyError(f"no program {number} in this run")
        return found[0]

    def programs(self, *, state: ProgramState | None = None, proposer: str | None = None) -> Iterator[Program]:
        """See :class:`~evolve.database.storage.Storage`."""
        key = programs.c.finish_order if state is ProgramState.FINISHED else programs.c.number
        statement = _PROGRAMS.where(key > bindparam("after")).order_by(key).limit(BATCH)
        if state is not None:
            statement = statement.where(programs.c.state == state.value)
        if proposer is not None:
            statement = statement.where(programs.c.proposer == proposer)
        after = 0
        while rows := self._rows(statement, after=after):
            yield from self._assemble(rows)
            after = rows[-1][key.name]

    def unfinished(self) -> list[Program]:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = self._rows(_PROGRAMS.where(programs.c.state != ProgramState.FINISHED.value))
        rows.sort(key=lambda row: (row["state"] != ProgramState.JUDGED.value, row["evaluation_id"] or 0, row["number"]))
        judged = [row for row in rows if row["state"] == ProgramState.JUDGED.value]
        queued = sorted((row for row in rows if row not in judged), key=lambda row: row["number"])
        return self._assemble(judged + queued)

    def find(self, source_hash: str, language: Language) -> tuple[int, ProgramState] | None:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = self._rows(_FIND, source_hash=source_hash, language=language)
        return (rows[0]["number"], ProgramState(rows[0]["state"])) if rows else None

    def attempts(self, number: int) -> int:
        """See :class:`~evolve.database.storage.Storage`."""
        statement = select(programs.c.attempts).where(programs.c.run_id == self._run_id, programs.c.number == number)
        return int(self._rows(statement)[0]["attempts"])

    def duels(self, challenger: int) -> list[DuelRecord]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [duel_of(row) for row in self._rows(_DUELS, challenger=challenger)]

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
        return Totals(
            charge=Charge(counts["programs"], float(sums["device_s"]), float(sums["dollars"]), int(sums["tokens"])),
            next_number=counts["last"] + 1,
            finished=counts["finished"],
            duplicates=counts["duplicates"],
            verdicts=verdicts,
            since_best=since_best,
            largest_device_s=float(dearest["device_s"]),
        )

    def _verdicts(self) -> tuple[dict[str, int], int]:
        """Finished programs by verdict, duplicates not counted; and how many passed since the best finished."""
        first, second = evaluations.alias("first"), evaluations.alias("second")
        verdict = func.coalesce(second.c.status, first.c.status)

        def of(table: Any, kind: str) -> Any:
            return and_(table.c.run_id == programs.c.run_id, table.c.program == programs.c.number, table.c.kind == kind)

        best = (
            select(programs.c.finish_order)
            .join(runs, and_(runs.c.id == programs.c.run_id, runs.c.best == programs.c.number))
            .where(runs.c.id == self._run_id)
            .scalar_subquery()
        )
        later = case((programs.c.finish_order > func.coalesce(best, 0), 1), else_=0)
        statement = (
            select(verdict.label("status"), func.count().label("number"), func.sum(later).label("later"))
            .select_from(programs.join(first, of(first, SEARCH)).outerjoin(second, of(second, CONFIRMATION)))
            .where(
                programs.c.run_id == self._run_id,
                programs.c.state == ProgramState.FINISHED.value,
                programs.c.duplicate_of.is_(None),
            )
            .group_by(verdict)
        )
        rows = self._rows(statement)
        since_best = sum(int(row["later"]) for row in rows if row["status"] == "passed")
        return {row["status"]: int(row["number"]) for row in rows}, since_best

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

    def model_calls(self) -> Sequence[ModelCall]:
        """See :class:`~evolve.database.storage.Storage`."""
        prompt, completion = texts.alias("prompt_text"), texts.alias("completion_text")
        names = ("model", "status", "program", "tokens_in", "tokens_out", "dollars", "wall_s")
        statement = (
            select(*model_calls.c[names], prompt.c.text.label("prompt"), completion.c.text.label("completion"))
            .join(prompt, and_(prompt.c.run_id == model_calls.c.run_id, prompt.c.hash == model_calls.c.prompt_hash))
            .join(
                completion,
                and_(completion.c.run_id == model_calls.c.run_id, completion.c.hash == model_calls.c.completion_hash),
            )
            .where(model_calls.c.run_id == self._run_id)
            .order_by(model_calls.c.id)
        )
        return [ModelCall(**row) for row in self._rows(statement)]

    def migrations(self) -> Sequence[Migrations]:
        """See :class:`~evolve.database.storage.Storage`."""
        names = ("round", "source", "target", "program", "placement")
        statement = select(*migrations.c[names]).where(migrations.c.run_id == self._run_id)
        rows = self._rows(statement.order_by(migrations.c.round, migrations.c.source))
        moves = [MigrationRecord(**{**row, "placement": AddStatus(row["placement"])}) for row in rows]
        return [Migrations(number, tuple(group), ()) for number, group in groupby(moves, key=lambda move: move.round)]

    def close(self) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        self._engine.dispose()

    def _rows(self, statement: Executable, **parameters: object) -> list[Mapping[str, Any]]:
        with self._engine.connect() as connection:
            result = connection.execute(statement, {"run": self._run_id, **parameters})
            return [dict(row) for row in result.mappings()]

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
            for row in self._rows(_ARTIFACTS, ids=list(ids)):
                artifact = Artifact(name=row["name"], text=row["text"], truncated=row["truncated"])
                found[row["evaluation_id"]].append(artifact)
        return found


def list_runs(engine: Engine) -> Iterable[RunRecord]:
    """Every run in a database, oldest first."""
    with engine.connect() as connection:
        ids = list(connection.execute(select(runs.c.id).order_by(runs.c.id)).scalars())
    return [StorageReader(engine, run_id).run() for run_id in ids]
