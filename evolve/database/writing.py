"""What every write shares: one connection, transactions, and the rows that go with nearly all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from evaluators.evaluation import Environment
from evolve.database.codec import ledger_row, storable, text_hash
from evolve.database.engine import naming_failures, transaction
from evolve.database.postgresql import claim, is_postgresql
from evolve.database.reader import StorageReader
from evolve.database.records import Event, LedgerEntry
from evolve.database.statements import ADD_EVENT, ADD_LEDGER, ADD_STEP, ADD_TEXT
from evolve.database.steps import Step
from evolve.errors import DatabaseFailedError, RunLockedError, StorageError


class SqlWriter(StorageReader):
    """Transactions on one run, for the one process that writes it."""

    def __init__(
        self, engine: Engine, run_id: int, clock: Callable[[], float] = time.time, patience_s: float = 0.0
    ) -> None:
        """Write run ``run_id``; ``clock`` gives seconds since the epoch.

        Somebody else who writes it is waited for ``patience_s``.

        Raises:
            RunLockedError: another process writes it. Only a server says so: a file has its folder's lock.
        """
        super().__init__(engine, run_id)
        # One connection for the run's whole life: taking it from the pool costs more than most statements.
        with naming_failures(engine):
            self._connection = engine.connect().execution_options(write=True, patient=True)
            other = claim(self._connection, run_id, patience_s) if is_postgresql(engine) else None
        if other is not None:
            self.close()
            raise RunLockedError(f"run {run_id} of {self._shown}: is written by {other}; wait for it or stop it first")
        self._clock = clock
        self._environment: tuple[Environment, str] | None = None
        self._noted: list[Step] = []

    def note(self, step: Step) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        self._noted.append(step)

    def close(self) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        self._connection.close()
        super().close()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        if self._connection.invalidated:  # With it went the claim on the run: somebody else may write it by now.
            raise DatabaseFailedError(f"database {self._shown}: the connection was lost; go on with evolve resume")
        committed = False
        try:
            with transaction(self._connection):
                self._add_steps(self._connection)
                yield self._connection
            committed = True
        except IntegrityError as error:
            raise StorageError(f"the database refuses it: {' '.join(str(error.orig).split())}") from error
        finally:
            self._noted.clear()
            if not committed:  # What was rolled back may have been the environment remembered as stored.
                self._environment = None

    def _environment_hash(self, connection: Connection, environment: Environment) -> str:
        """Store an environment as text; it is nearly always the one stored last."""
        if self._environment is not None and self._environment[0] == environment:
            return self._environment[1]
        key = self._add_text(connection, environment.model_dump_json())
        self._environment = (environment, key)
        return key

    def _add_text(self, connection: Connection, content: str) -> str:
        """Store a text, where the run does not hold it yet; returns the key."""
        key = text_hash(content)
        self._prepared.execute(connection, ADD_TEXT, {"run_id": self._run_id, "hash": key, "text": content})
        return key

    def _add_steps(self, connection: Connection) -> None:
        rows = [
            {"run_id": self._run_id, "kind": s.kind.value, "program": s.program, "other": s.other, "text": s.text}
            for s in self._noted
        ]
        self._prepared.execute_many(connection, ADD_STEP, rows)

    def _add_ledger(self, connection: Connection, entry: LedgerEntry) -> None:
        row = {**ledger_row(entry), "run_id": self._run_id, "created_at": self._clock()}
        self._prepared.execute(connection, ADD_LEDGER, row)

    def _add_events(self, connection: Connection, new: Iterable[Event]) -> None:
        for event in new:
            row = {"run_id": self._run_id, "at": event.at or self._clock(), "kind": event.kind}
            connection.execute(ADD_EVENT, {**row, "text": storable(event.text), "program": event.program})
