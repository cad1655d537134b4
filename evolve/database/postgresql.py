"""What a PostgreSQL server needs to be told: what to do when we, it or the network is gone, and who writes a run."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, event, text

LOCK_TIMEOUT_MS = 30_000
"""As long as SQLite waits for a lock, no longer."""

_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A server that is gone without a word is noticed within half a minute, not after the kernel's two hours."""

_SERVER_SIDE = {
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    # A writer whose host is gone gives its run free soon.
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

RETRY_S = 0.05

_CLAIM = 0x45564F4C
"""Our space among the server's advisory locks. A run's number is the key in it; 0 is for making the tables."""

_TRY_CLAIM = text("SELECT pg_try_advisory_lock(:space, :run)")
_HOLDER = text(
    "SELECT coalesce(a.application_name, '') FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.classid = :space AND l.objid = :run"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(:space, 0)")


def is_postgresql(engine: Engine) -> bool:
    """Whether there is a server of this kind behind an engine."""
    return engine.dialect.name == "postgresql"


def connect_arguments(url: URL) -> dict[str, str]:
    """What the driver is told besides the URL; what the URL says itself stays."""
    ours = {**_PATIENCE, "application_name": f"evolve, process {os.getpid()} on {socket.gethostname()}"}
    return {name: value for name, value in ours.items() if name not in url.query}


def prepare_postgresql(engine: Engine, *, read_only: bool) -> None:
    """Tell the server of every new connection what it is to be like."""
    settings = {**_SERVER_SIDE, **({"default_transaction_read_only": "on"} if read_only else {})}

    if engine.dialect.driver == "psycopg":
        _connect_patiently(engine)

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            for name, value in settings.items():
                cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.commit()


def _connect_patiently(engine: Engine) -> None:
    from evolve.database.patient import PatientConnection  # noqa: PLC0415 - the driver is an extra

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: Any, parameters: Any) -> Any:
        return PatientConnection.connect(*arguments, **parameters)


def claim(connection: Connection, run_id: int, patience_s: float) -> str | None:
    """Become the only process that writes a run, for as long as this connection lives.

    Args:
        connection: the process's own.
        run_id: which run.
        patience_s: how long somebody else who has it is waited for; as with a folder's lock.

    Returns:
        ``None``, or who has it: whatever host it is on.
    """
    deadline = time.monotonic() + patience_s
    while True:
        claimed = connection.execute(_TRY_CLAIM, {"space": _CLAIM, "run": run_id}).scalar_one()
        other = None if claimed else holder(connection, run_id)
        connection.rollback()  # The lock is the session's, not the transaction's.
        if claimed or time.monotonic() >= deadline:
            return other if claimed else other or "another process"
        time.sleep(RETRY_S)


def holder(connection: Connection, run_id: int) -> str | None:
    """Who writes a run now."""
    found: str | None = connection.execute(_HOLDER, {"space": _CLAIM, "run": run_id}).scalar()
    return found


@contextmanager
def one_at_a_time(connection: Connection) -> Iterator[None]:
    """Make or change tables while nobody else does. A statement may take as long as it likes: tables can be large."""
    with ExitStack() as stack:
        if connection.dialect.driver == "psycopg":
            from evolve.database.patient import PatientConnection, endless  # noqa: PLC0415 - the driver is an extra

            driver = connection.connection.driver_connection
            if isinstance(driver, PatientConnection):
                stack.enter_context(endless(driver))
        connection.execute(_ONE_AT_A_TIME, {"space": _CLAIM})
        yield
