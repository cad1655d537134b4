"""Statements that run for every program, as SQL text compiled once.

Per call SQLAlchemy's statement machinery costs more than SQLite's whole work; handing the driver its text directly
halves that, and the statements themselves stay in SQLAlchemy's language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, Insert

Result = CursorResult[*tuple[Any, ...]]


@dataclass(frozen=True)
class _Compiled:
    text: str
    defaults: Mapping[str, Any]
    positions: Sequence[str] | None
    """Parameter names in order, where the driver wants a tuple."""

    def parameters(self, row: Mapping[str, Any]) -> Any:
        """``row`` as the driver wants it."""
        values = {**self.defaults, **row}
        if self.positions is None:
            return {name: values[name] for name in self.defaults}
        return tuple([values[name] for name in self.positions])


class PreparedStatements:
    """Compiles each statement for the first connection it is executed on; one database's only.

    Columns need no conversion between Python and the driver: texts, numbers and booleans throughout the schema.
    """

    def __init__(self) -> None:
        """Nothing is compiled yet."""
        self._compiled: dict[Executable, _Compiled] = {}

    def execute(self, connection: Connection, statement: Executable, row: Mapping[str, Any]) -> Result:
        """Execute ``statement`` with ``row``; an insert always gets the same columns."""
        found = self._find(connection, statement, row)
        return connection.exec_driver_sql(found.text, found.parameters(row))

    def execute_many(self, connection: Connection, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute ``statement`` with each of ``rows``, in one call of the driver."""
        if rows:
            found = self._find(connection, statement, rows[0])
            connection.exec_driver_sql(found.text, [found.parameters(row) for row in rows])

    def _find(self, connection: Connection, statement: Executable, row: Mapping[str, Any]) -> _Compiled:
        found = self._compiled.get(statement)
        if found is None:
            found = self._compiled[statement] = _compile(connection, statement, row)
        return found


def _compile(connection: Connection, statement: Any, row: Mapping[str, Any]) -> _Compiled:
    plain_insert = isinstance(statement, Insert) and statement.select is None
    columns = list(row) if plain_insert else None
    compiled = statement.compile(dialect=connection.dialect, column_keys=columns)
    return _Compiled(str(compiled), dict(compiled.params), compiled.positiontup)
