"""A run looked at: read-only, without its task, while it runs or afterwards. What notebooks and ``evolve show`` use."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Self

from evaluators.evaluation import Duel
from evolve.budget import Spent
from evolve.database.reader import StorageReader
from evolve.database.records import Event, RunRecord
from evolve.database.versions import open_database
from evolve.observer import Progress
from evolve.run_directory import RunDirectory
from evolve.types import Program, ProgramState


class RunView:
    """Reads a run; never writes. Safe beside the process that writes it."""

    def __init__(self, directory: Path, storage: StorageReader) -> None:
        """See :meth:`open`."""
        self.directory = directory
        self.storage = storage
        """Everything else that can be read: events, ledger, model calls, cells, migrations."""

    @classmethod
    def open(cls, path: str | Path, *, url: str | None = None) -> Self:
        """Open a run directory; ``url`` overrides the database it names (for one with a password).

        Raises:
            UsageError: no run is there, or its database is of another version.
        """
        directory = Path(path)
        location, run_id = RunDirectory(directory).locate(url)
        return cls(directory, StorageReader(open_database(location, read_only=True), run_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        record, programs = self.record, self.storage.totals().charge.candidates
        return f"<run {self.directory}: task {record.task_name}, {programs} programs, {record.status}>"

    @property
    def record(self) -> RunRecord:
        """Name, task, settings, status, heartbeat, as stored now."""
        return self.storage.run()

    def programs(self) -> Any:
        """One row a program, by number: a pandas ``DataFrame`` where pandas is installed, else a list of dicts."""
        rows = self.storage.table()
        try:
            import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: PLC0415
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def program(self, number: int) -> Program:
        """One program with everything known of it.

        Raises:
            KeyError: there is none of that number.
        """
        return self.storage.program(number)

    def best(self) -> Program | None:
        """The best confirmed program."""
        number = self.record.best
        return None if number is None else self.program(number)

    def pending(self) -> list[Program]:
        """Judged programs that are not placed yet: among them what waits for a confirmation. By score, best first."""
        judged = [p for p in self.storage.unfinished() if p.state is ProgramState.JUDGED and p.score is not None]
        return sorted(judged, key=lambda program: -(program.score or 0.0))

    def lineage(self, number: int) -> list[Program]:
        """A program and its first parents, youngest first, down to the seed."""
        line = [self.program(number)]
        while line[-1].parents:
            line.append(self.program(line[-1].parents[0]))
        return line

    def duels(self, number: int) -> list[tuple[int, Duel]]:
        """The duels this program challenged others to: occupant and result."""
        return [(record.occupant, record.duel) for record in self.storage.duels(number)]

    def events(self) -> list[Event]:
        """The run's history, oldest first."""
        return list(self.storage.events())

    def progress(self) -> Progress:
        """Counts, costs, caps and the best."""
        record, totals, best = self.record, self.storage.totals(), self.best()
        return Progress(
            status=record.status,
            programs=totals.charge.candidates,
            finished=totals.finished,
            duplicates=totals.duplicates,
            verdicts=totals.verdicts,
            spent=Spent(totals.charge, record.active_s, totals.since_best, best.score if best else None),
            caps=record.settings.caps,
            best=best,
            leases=len(self.storage.open_leases(time.time())),
        )

    def alive(self) -> bool:
        """``running``, and its heartbeat is younger than half a minute."""
        return self.record.alive(time.time())

    def close(self) -> None:
        """Close the database."""
        self.storage.close()
