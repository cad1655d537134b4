"""What others than the search process write into a run: leases, answers and orders. Safe beside it, in any number."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, update
from sqlalchemy.exc import IntegrityError

from evaluators.errors import UsageError
from evolve.database.codec import text_hash
from evolve.database.engine import naming_failures, transaction
from evolve.database.mail import Answer, Lease, NewAnswer, NewLease
from evolve.database.postgresql import holder, is_postgresql
from evolve.database.reader import StorageReader
from evolve.database.schema import answers, events, leases, runs, steering
from evolve.database.statements import ADD_TEXT
from evolve.database.steering import Steer, SteerRecord
from evolve.edits.equivalence import equivalence_key

Documents = tuple[str, str]
"""A run's settings (JSON) and configuration (TOML)."""


class Mailbox(StorageReader):
    """One run as agents and people outside write to it. Every method that writes is one transaction.

    The search process reads what is here, and makes each answer a program exactly once, by
    :meth:`evolve.database.storage.Storage.add_program`.
    """

    def __init__(self, engine: Engine, run_id: int, clock: Callable[[], float] = time.time) -> None:
        """Write to run ``run_id``; ``clock`` gives seconds since the epoch."""
        super().__init__(engine, run_id)
        self._clock = clock

    def now(self) -> float:
        """Seconds since the epoch, as leases count them."""
        return self._clock()

    def writer(self) -> str | None:
        """Who writes the run now, on whatever host; only a server knows: a file has its folder's lock."""
        if not is_postgresql(self._engine):
            return None
        return self._read(lambda: holder(self._reading, self._run_id))

    def add_lease(self, new: NewLease, check: Callable[[], None] = lambda: None) -> Lease:
        """Store what an agent is given to work on.

        ``check`` looks whether there is room for it, at an instant at which nobody else is given any; an error it
        raises leaves everything as it was.
        """
        now = self._clock()
        row = {
            "run_id": self._run_id,
            "agent": new.agent,
            "island": new.island,
            "parent": new.parent,
            "inspirations": json.dumps(new.inspirations),
            "asked_at": now,
            "expires_at": now + new.lease_s,
        }
        with self._write() as connection:
            connection.execute(select(runs.c.id).where(runs.c.id == self._run_id).with_for_update(key_share=True))
            check()
            number = connection.execute(insert(leases).returning(leases.c.id), row).scalar_one()
        return Lease.of({**row, "id": number})

    def add_answer(self, new: NewAnswer) -> Answer:
        """Store a source for the search to take, or return the answer it repeats.

        An answer to an expired lease is stored like any other, with ``late_s``.

        Raises:
            UsageError: the lease was answered with a source that this one does not equal.
        """
        now, lease = self._clock(), new.lease
        row: dict[str, Any] = {
            "run_id": self._run_id,
            "lease": lease.id if lease else None,
            "agent": new.agent,
            "operator": new.operator,
            "language": new.language,
            "text_hash": text_hash(new.source),
            "note": new.note,
            "island": lease.island if lease else None,
            "parents": json.dumps((lease.parent,) if lease else new.parents),
            "inspirations": json.dumps(lease.inspirations if lease else ()),
            "late_s": now - lease.expires_at if lease and now > lease.expires_at else None,
            "told_at": now,
        }
        try:
            with self._write() as connection:
                connection.execute(ADD_TEXT, {"run_id": self._run_id, "hash": row["text_hash"], "text": new.source})
                number = connection.execute(insert(answers).returning(answers.c.id), row).scalar_one()
                if lease is None:
                    self._add_event(connection, now, f"{new.operator}: answer {number} by {new.agent}: {new.note}")
        except IntegrityError:
            stored = self._answers(answers.c.lease == lease.id) if lease else []
            if not stored:
                raise
            return _repeated(stored[0], new)
        return self.answer(number)

    def steer(self, kind: Steer, text: str, argument: str, change: Callable[[Documents], Documents]) -> SteerRecord:
        """Store an order with its event, and what it changes in the run's settings and configuration.

        ``change`` gets those as they are at that instant; an error it raises leaves everything as it was.
        """
        now = self._clock()
        this = runs.c.id == self._run_id
        with self._write() as connection:
            columns = select(runs.c.settings, runs.c.config).where(this).with_for_update(key_share=True)
            before = tuple(connection.execute(columns).one())
            settings, config = change((before[0], before[1]))
            if (settings, config) != before:
                connection.execute(update(runs).where(this).values(settings=settings, config=config))
            return self._add_order(connection, now, kind, text, argument)

    def release(self, lease: Lease, text: str) -> SteerRecord:
        """Let an open lease expire at this instant, with the order on record that says so."""
        now = self._clock()
        this = (leases.c.run_id == self._run_id, leases.c.id == lease.id, leases.c.expires_at > now)
        with self._write() as connection:
            connection.execute(update(leases).where(*this).values(expires_at=now))
            return self._add_order(connection, now, Steer.RELEASE, text, str(lease.id))

    def _add_order(self, connection: Connection, at: float, kind: Steer, text: str, argument: str) -> SteerRecord:
        row = {"run_id": self._run_id, "at": at, "kind": kind.value, "text": text, "argument": argument}
        number = connection.execute(insert(steering).returning(steering.c.id), row).scalar_one()
        self._add_event(connection, at, f"{number}: {kind}: {text}")
        return SteerRecord(int(number), kind, text, argument, at)

    def _add_event(self, connection: Connection, at: float, text: str) -> None:
        connection.execute(insert(events), {"run_id": self._run_id, "at": at, "kind": "steer", "text": text})

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        # A connection from the pool for each: a server may have been restarted since the last.
        with (
            naming_failures(self._engine),
            self._engine.connect().execution_options(write=True) as connection,
            transaction(connection),
        ):
            yield connection


def _repeated(stored: Answer, new: NewAnswer) -> Answer:
    if equivalence_key(stored.source, stored.language) != equivalence_key(new.source, new.language):
        became = f"program {stored.program}" if stored.program else "a source that waits for the search"
        raise UsageError(f"lease {stored.lease} was answered before, with {became}: ask again for another lease")
    return stored
