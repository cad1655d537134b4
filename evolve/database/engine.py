"""Engines: how a database is reached, by URL. SQLite is set up so that ``kill -9`` loses nothing that was committed."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import StaticPool

from evaluators.errors import UsageError
from evolve.database.postgresql import connect_arguments, is_postgresql, prepare_postgresql
from evolve.database_url import SECRETS, without_password
from evolve.errors import DatabaseFailedError

BUSY_TIMEOUT_MS = 30_000
LOCK_PATIENCE_S = 600.0
"""So long the process that writes a run waits for somebody else's lock: what it holds may have been paid for."""

_GAVE_UP = "gave up waiting for a lock"
_log = logging.getLogger(__name__)


def parse_url(url: str) -> URL:
    """Check a database URL. PostgreSQL is spoken to by psycopg where the URL names no driver.

    Raises:
        UsageError: it is none, or names a database we have no dialect for.
    """
    try:
        parsed = make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise UsageError(
            f"database {without_password(url)!r}: not a database URL; write sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    return parsed


def without_secrets(url: URL) -> URL:
    """The same address for whoever knows the password another way."""
    return url._replace(password=None).difference_update_query(sorted(SECRETS))


def sqlite_file(url: URL) -> Path | None:
    """The file of an SQLite database; ``None`` for one in memory, and for other databases."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database)


def open_engine(url: URL, *, read_only: bool = False) -> Engine:
    """An engine on ``url``. Read-only engines change no byte of the database.

    Write on a connection with the execution option ``write=True``: on SQLite its transactions take the write lock at
    once (waiting their turn behind other runs), so that none fails halfway. Without it every statement stands alone.

    Raises:
        UsageError: the database's driver is not installed.
    """
    options: dict[str, Any] = {}
    file = sqlite_file(url)
    if url.get_backend_name() == "sqlite" and file is None:
        options["poolclass"] = StaticPool
    elif read_only and file is not None and _frozen(file):
        # SQLite cannot open a WAL database in a folder it may not write to, unless told that nobody writes.
        url = url.set(database=f"file:{file}").update_query_dict({"immutable": "1", "uri": "true"})
    if url.drivername == "postgresql+psycopg":
        options |= {"connect_args": connect_arguments(url), "pool_pre_ping": True}
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as error:
        shown = url.render_as_string()
        raise UsageError(f"database {shown}: its driver is missing ({error.name}): pip install {error.name}") from None
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine, read_only=read_only)
    elif is_postgresql(engine):
        prepare_postgresql(engine, read_only=read_only)
    return engine


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """One transaction on a connection that outlives it: committed at the end, rolled back by any exception.

    More than ``connection.begin()``: SQLAlchemy forgets a transaction whose COMMIT was refused, and one whose BEGIN was
    executed when a signal's exception came in between. The next one on this connection would fail inside it, and
    other writers would wait for its lock.

    Raises:
        DatabaseFailedError: the database cannot be written: a full disk, a server that is gone, a lock held for too
            long.
    """
    try:
        with naming_failures(connection.engine), connection.begin():
            yield
    except BaseException:
        if not connection.closed and not connection.invalidated:
            connection.connection.rollback()
        raise


@contextmanager
def naming_failures(engine: Engine) -> Iterator[None]:
    """What the driver raises when it cannot read or write, as one line that names the database.

    Raises:
        DatabaseFailedError: it could not. What breaks a constraint passes as it is.
    """
    try:
        yield
    except IntegrityError:
        raise
    except (DBAPIError, sqlite3.Error) as error:  # the latter from BEGIN, which is the driver's own
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        shown = engine.url.render_as_string(hide_password=True)
        raise DatabaseFailedError(
            f"database {shown}: {reason}; what was stored before is kept, go on with evolve resume when that is mended"
        ) from error


def _frozen(file: Path) -> bool:
    return not os.access(file.parent, os.W_OK) and not file.with_name(file.name + "-wal").exists()


def _prepare_sqlite(engine: Engine, *, read_only: bool) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # The driver begins no transaction of its own.
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        if read_only:
            cursor.execute("PRAGMA query_only = ON")
        else:
            cursor.execute("PRAGMA journal_mode = WAL")
            # In WAL mode NORMAL loses no commit when the process dies; only a power cut may take the last ones.
            cursor.execute("PRAGMA synchronous = NORMAL")
            cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("write", False):
            try:
                _take_write_lock(connection)
            except sqlite3.OperationalError as error:
                raise OperationalError("BEGIN IMMEDIATE", None, error) from error


def _take_write_lock(connection: Connection) -> None:
    """Begin a transaction that will write. A connection with the option ``patient=True`` waits for long, once."""
    cursor, known = connection.connection.cursor(), connection.info
    patient = connection.get_execution_options().get("patient", False) and not known.get(_GAVE_UP, False)
    deadline, said = time.monotonic() + (LOCK_PATIENCE_S if patient else 0.0), False
    while True:
        try:
            cursor.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or not patient:
                raise
            if time.monotonic() >= deadline:
                known[_GAVE_UP] = True  # What is still to be written at the end is not to wait as long again.
                cursor.execute("PRAGMA busy_timeout = 0")
                raise
        if not said:
            _log.warning("%s: another process holds its lock; waiting for it", connection.engine.url.database)
            said = True
