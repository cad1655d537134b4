"""One run as a text file: to keep a recorded run under version control, or to hand it to somebody.

One JSON object a line: first what the file is, then every row of the run, table by table in the order in which they
refer to each other, each by primary key; columns that are ``NULL`` are left out. The same run gives the same bytes. A
name that ends in ``.gz`` is compressed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Table, insert, select
from sqlalchemy.exc import IntegrityError

from evaluators.errors import UsageError
from evolve.database.reader import StorageReader
from evolve.database.revisions import REVISIONS
from evolve.database.schema import artifacts, evaluations, metadata, runs, timings
from evolve.database.versions import HEAD, create_database, migrate

_FORMAT = "kernel-evolve run"
_LOADED_AS = 1


def dump_run(engine: Engine, run_id: int, path: Path) -> int:
    """Write a run to a file; returns how many bytes it has.

    Raises:
        UsageError: the file cannot be written.
    """
    lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in _lines(engine, run_id))
    content = lines.encode("utf-8", "surrogatepass")
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    return len(content)


def load_dump(path: Path) -> StorageReader:
    """A run out of a file, in a database in memory.

    Raises:
        UsageError: the file cannot be read, is something else, or is of a newer version.
    """
    head, *lines = _read(path)
    if head.get("format") != _FORMAT:
        raise UsageError(f"{path}: is no run that evolve db dump wrote")
    version = head.get("version")
    if version not in REVISIONS:
        words = f"was written with database version {version}, which this program does not know (its own is {HEAD})"
        raise UsageError(f"{path}: {words}; upgrade kernel-evolve")
    engine = create_database("sqlite://", version)
    try:
        with engine.execution_options(write=True).begin() as connection:
            for line in lines:
                table = metadata.tables[line.pop("table")]
                if "run_id" in table.c:
                    line["run_id"] = _LOADED_AS
                connection.execute(insert(table), line)
        migrate(engine)
    except (KeyError, IntegrityError) as error:
        engine.dispose()
        raise UsageError(f"{path}: holds a row that does not fit: {' '.join(str(error).split())[:200]}") from None
    return StorageReader(engine, _LOADED_AS)


def _lines(engine: Engine, run_id: int) -> Iterator[dict[str, Any]]:
    yield {"format": _FORMAT, "version": HEAD}
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            order = list(table.primary_key.columns)
            for row in connection.execute(select(table).where(_of_run(table, run_id)).order_by(*order)).mappings():
                kept = {name: value for name, value in row.items() if value is not None and name != "run_id"}
                yield {"table": table.name, **kept, **({"id": _LOADED_AS} if table is runs else {})}


def _of_run(table: Table, run_id: int) -> Any:
    if table is runs:
        return runs.c.id == run_id
    if "run_id" in table.c:
        return table.c.run_id == run_id
    assert table in (timings, artifacts)
    return table.c.evaluation_id.in_(select(evaluations.c.id).where(evaluations.c.run_id == run_id))


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        lines = [json.loads(line) for line in content.decode("utf-8", "surrogatepass").rstrip("\n").split("\n")]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (EOFError, ValueError):
        raise UsageError(f"{path}: is no run that evolve db dump wrote") from None
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise UsageError(f"{path}: is no run that evolve db dump wrote")
    return lines
