"""Databases of other versions, of other people, and none at all: one line each, and nothing written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import OperationalError

import evolve.database
from evaluators.errors import UsageError
from evolve.database.revisions import REVISIONS
from evolve.database.schema import metadata
from evolve.database.versions import HEAD, create_database, open_database, upgrade_database
from evolve.errors import DatabaseVersionError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.db"
    create_database(f"sqlite:///{path}").dispose()
    return path


def stamp(file: Path, version: str) -> bytes:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
    connection.close()
    return file.read_bytes()


def test_the_revisions_make_the_schema(file: Path) -> None:
    with open_database(f"sqlite:///{file}").connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_every_revision_is_known_by_name() -> None:
    scripts = ScriptDirectory(str(Path(evolve.database.__file__).parent / "revisions"))
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(REVISIONS)


@pytest.mark.parametrize("call", [open_database, create_database, upgrade_database])
def test_a_newer_database_is_refused_and_left_alone(file: Path, call: object) -> None:
    before = stamp(file, "9999")
    with pytest.raises(DatabaseVersionError, match=r"version 9999, newer than this program knows") as error:
        call(f"sqlite:///{file}")  # type: ignore[operator]
    assert "\n" not in str(error.value)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["run.db"]


def test_an_older_database_names_the_command(file: Path) -> None:
    before = stamp(file, REVISIONS[0])
    with pytest.raises(DatabaseVersionError, match=rf"run: evolve db upgrade sqlite:///{file}"):
        open_database(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_upgrading_reports_both_versions(file: Path) -> None:
    assert upgrade_database(f"sqlite:///{file}") == (HEAD, HEAD)


def test_a_database_of_the_first_version_becomes_one_of_ours(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE evaluations DROP COLUMN glance_level")
    connection.close()
    stamp(file, REVISIONS[0])
    assert upgrade_database(f"sqlite:///{file}") == (REVISIONS[0], HEAD)
    test_the_revisions_make_the_schema(file)


@pytest.mark.parametrize("call", [open_database, upgrade_database])
def test_a_missing_file_is_not_made(tmp_path: Path, call: object) -> None:
    with pytest.raises(UsageError, match="no such file"):
        call(f"sqlite:///{tmp_path}/absent.db")  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", [open_database, create_database, upgrade_database])
def test_somebody_elses_database_is_left_alone(tmp_path: Path, call: object) -> None:
    file = tmp_path / "cookbook.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(UsageError, match="holds other tables than ours"):
        call(f"sqlite:///{file}")  # type: ignore[operator]
    assert file.read_bytes() == before


@pytest.mark.parametrize("call", [open_database, create_database, upgrade_database])
def test_a_file_that_is_no_database(tmp_path: Path, call: object) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear all,\n" * 500)
    with pytest.raises(UsageError, match="is not a database"):
        call(f"sqlite:///{file}")  # type: ignore[operator]
    assert file.read_text().startswith("Dear all")


@pytest.mark.parametrize("url", ["", "run.db", "oracle9i://x", "sqlite:/x"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(UsageError, match="not a database URL"):
        open_database(url)


def test_a_server_that_does_not_answer_is_one_line_without_the_password() -> None:
    with pytest.raises(UsageError, match="cannot be reached") as error:
        open_database("postgresql+psycopg://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        create_database(f"sqlite:///{tmp_path}/absent/run.db")


def test_read_only_engines_cannot_write(file: Path) -> None:
    before = file.read_bytes()
    engine = open_database(f"sqlite:///{file}", read_only=True)
    with engine.connect() as connection, pytest.raises(OperationalError, match="readonly"):
        connection.exec_driver_sql("DELETE FROM alembic_version")
    assert file.read_bytes() == before
