"""The reading half of the storage: used beside the writing process as well as inside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from pydantic import ValidationError
from sqlalchemy import Engine, bindparam, case, func, select

from evaluators.errors import UsageError
from evaluators.evaluation import Artifact, Evaluation, Status
from evaluators.task import Language
from evolve.budget import Charge
from evolve.database.codec import duel_of, evaluation_of, program_of
from evolve.database.columns import MOST
from evolve.database.engine import naming_failures
from evolve.database.mail_reading import MailReader
from evolve.database.model_reading import ModelReader
from evolve.database.queries import (
    ARTIFACTS,
    DUELS,
    FAMILY_MARGINS,
    FIND,
    MARGINS,
    ONE_PROGRAM,
    OUTCOMES,
    PROGRAMS,
    SANDBOXES,
    SEARCH,
    SOURCES,
    TABLE,
    VERDICTS,
)
from evolve.database.reading import BATCH
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
    cells,
    dialogues,
    evaluations,
    events,
    islands,
    ledger,
    migrations,
    programs,
    runs,
    steps,
)
from evolve.database.steps import Step, StepKind
from evolve.settings import RunSettings
from evolve.types import AddStatus, Program, ProgramState, RunStatus


class StorageReader(ModelReader, MailReader):
    """Reads one run. See :class:`evolve.database.storage.Storage` for what every method promises."""

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
        found = self._assemble(self._rows(ONE_PROGRAM, number=number)) if 0 < number <= MOST else ()
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

    def margins(self) -> dict[int, dict[int, float]]:
        """See :class:`~evolve.database.storage.Storage`."""
        found: dict[int, dict[int, float]] = {}
        for row in self._rows(MARGINS):
            found.setdefault(row["challenger"], {})[row["occupant"]] = row["ratio"]
        return found

    def family_margins(self, number: int) -> dict[int, float]:
        """See :class:`~evolve.database.storage.Storage`."""
        found: dict[int, float] = {}
        for row in self._rows(FAMILY_MARGINS, number=number):
            found[row["occupant"]] = max(row["ratio"], found.get(row["occupant"], 0.0))
        return found

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

    def sandboxes(self) -> dict[str, int]:
        """See :class:`~evolve.database.storage.Storage`."""
        return {row["sandbox"]: int(row["programs"]) for row in self._rows(SANDBOXES)}

    def table(self) -> list[dict[str, Any]]:
        """One flat row a program, by number, for looking at many at once: no sources, no documents."""
        return [dict(row) for row in self._rows(TABLE)]

    def outcomes(self) -> list[Mapping[str, Any]]:
        """See :class:`~evolve.database.storage.Storage`."""
        return self._rows(OUTCOMES)

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

    def migrations(self) -> Sequence[Migrations]:
        """See :class:`~evolve.database.storage.Storage`."""
        names = ("round", "source", "target", "program", "placement")
        statement = select(*migrations.c[names]).where(migrations.c.run_id == self._run_id)
        rows = self._rows(statement.order_by(migrations.c.round, migrations.c.source))
        moves = [MigrationRecord(**{**row, "placement": AddStatus(row["placement"])}) for row in rows]
        return [Migrations(number, tuple(group), ()) for number, group in groupby(moves, key=lambda move: move.round)]

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
