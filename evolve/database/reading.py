"""What every reader shares: one connection, made anew where a server broke it off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import Engine, Executable
from sqlalchemy.exc import DBAPIError

from evolve.database.engine import naming_failures
from evolve.database.prepared import PreparedStatements

T = TypeVar("T")

BATCH = 200
"""Programs read at a time when streaming: bounds memory, and no read holds a snapshot for long."""


class SqlReader:
    """Reads one run. See :class:`evolve.database.storage.Storage` for what every method of a reader promises."""

    def __init__(self, engine: Engine, run_id: int) -> None:
        """Read run ``run_id`` of the database behind ``engine``."""
        self._engine = engine
        self._run_id = run_id
        with naming_failures(engine):
            self._reading = engine.connect()
        self._prepared = PreparedStatements()
        self._shown = engine.url.render_as_string(hide_password=True)

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
