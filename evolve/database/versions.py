"""Which version a database has, and bringing it to ours. Alembic is imported only where something is changed."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, text
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from evaluators.errors import UsageError
from evolve.database.engine import open_engine, parse_url, sqlite_file
from evolve.database.postgresql import is_postgresql, one_at_a_time
from evolve.database.revisions import REVISIONS
from evolve.errors import DatabaseVersionError

HEAD = REVISIONS[-1]


def open_database(url: str, *, read_only: bool = False) -> Engine:
    """Open a database of our version. Writes nothing.

    Raises:
        DatabaseVersionError: it is newer than this program, or has to be upgraded first.
        UsageError: it is not there, cannot be reached, or is no database of runs.
    """
    parsed = parse_url(url)
    revision = _revision(parsed)
    if revision is None:
        raise UsageError(f"database {_shown(parsed)}: holds no runs; check the name")
    if revision != HEAD:
        raise DatabaseVersionError(
            f"database {_shown(parsed)}: has version {revision}, this program needs {HEAD}; "
            f"run: evolve db upgrade {_shown(parsed)}"
        )
    return open_engine(parsed, read_only=read_only)


def check_reachable(url: str) -> None:
    """See early whether a run can be kept there; nothing is written. Of files nothing is said but that it is a URL.

    Raises:
        UsageError: it is no database URL, or its server cannot be reached.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        _revision(parsed)


def create_database(url: str, revision: str = HEAD) -> Engine:
    """Open a database of our version, or make the tables in an empty or missing one.

    Args:
        url: which.
        revision: make them as they were then; to be brought to ours with :func:`migrate`.

    Raises:
        DatabaseVersionError: it is newer than this program, or has to be upgraded first.
        UsageError: it cannot be reached, or holds somebody else's tables.
    """
    parsed = parse_url(url)
    file = sqlite_file(parsed)
    if file is not None and not file.parent.is_dir():
        raise UsageError(f"database {_shown(parsed)}: folder {file.parent} does not exist")
    if file is not None and file.exists() and file.stat().st_size == 0:
        file.unlink()
    in_memory = parsed.get_backend_name() == "sqlite" and file is None
    exists = not in_memory and (file is None or file.exists())
    if exists and _revision(parsed) is not None:
        return open_database(url)
    engine = open_engine(parsed)
    try:
        migrate(engine, revision)
    except (DBAPIError, PermissionError) as error:
        engine.dispose()
        raise UsageError(f"database {_shown(parsed)}: cannot be made: {_reason(error)}") from None
    return engine


def upgrade_database(url: str) -> tuple[str, str]:
    """Bring a database to our version; returns the versions before and after.

    Raises:
        DatabaseVersionError: it is newer than this program.
        UsageError: it is not there, cannot be reached, or is no database of runs.
    """
    parsed = parse_url(url)
    before = _revision(parsed)
    if before is None:
        raise UsageError(f"database {_shown(parsed)}: holds no runs, nothing to upgrade")
    engine = open_engine(parsed)
    try:
        migrate(engine)
    finally:
        engine.dispose()
    return before, HEAD


def migrate(engine: Engine, revision: str = HEAD) -> None:
    """Bring an open database to a version, by default ours."""
    from alembic import command  # noqa: PLC0415 - only where something is changed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    folder = Path(__file__).with_name("revisions")
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    with (
        engine.execution_options(write=True).begin() as connection,
        one_at_a_time(connection) if is_postgresql(engine) else nullcontext(),
    ):
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def _revision(url: URL) -> str | None:
    """The stored version; ``None`` for a database without any table. Raises where it is not ours or is newer."""
    file = sqlite_file(url)
    if file is not None and not file.is_file():
        raise UsageError(f"database {_shown(url)}: no such file")
    engine = open_engine(url, read_only=True)
    try:
        with engine.connect() as connection:
            revision = _read_revision(connection, url)
    except OperationalError as error:
        raise UsageError(f"database {_shown(url)}: cannot be reached: {_reason(error)}") from None
    except DatabaseError as error:
        raise UsageError(f"database {_shown(url)}: is not a database: {_reason(error)}") from None
    finally:
        engine.dispose()
    if revision is not None and revision not in REVISIONS:
        raise DatabaseVersionError(
            f"database {_shown(url)}: has version {revision}, newer than this program knows ({HEAD}); "
            "upgrade kernel-evolve"
        )
    return revision


def _read_revision(connection: Connection, url: URL) -> str | None:
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if "alembic_version" not in tables or "programs" not in tables:
        raise UsageError(f"database {_shown(url)}: holds other tables than ours; name another database")
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _reason(error: Exception) -> str:
    """The driver's own words, on one line."""
    original = getattr(error, "orig", None) or error
    return " ".join(str(original).split())
