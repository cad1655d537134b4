"""Disks that are full, files that are damaged, two processes at once: one line, and nothing stored is lost."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from evaluators.errors import UsageError
from evolve.database.engine import open_engine, parse_url
from evolve.database.sql_storage import SqlStorage
from evolve.errors import DatabaseFailedError, RunLockedError
from evolve.log_file import LogFile
from evolve.run_directory import RunDirectory
from evolve.settings import Caps
from evolve.types import ProgramState, RunStatus
from evolve.view import RunView
from tests.evolve.searching import World, settings


async def test_a_full_disk_ends_the_run_and_resume_finds_everything(tmp_path: Path) -> None:
    world = World(tmp_path, settings(Caps(candidates=60)))
    with world.create() as run:
        storage = run.storage
        assert isinstance(storage, SqlStorage)
        connection = storage._connection
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 6}")
        connection.rollback()
        with pytest.raises(DatabaseFailedError, match=r"run\.db: database or disk is full; .* evolve resume"):
            await world.search(run)
    judged = len(world.judge.evaluated)
    assert judged > 2
    outcome = await world.resume()
    assert outcome.status is RunStatus.FINISHED
    assert all(program.state is ProgramState.FINISHED for program in world.programs())
    twice = [source for source, count in Counter(world.judge.evaluated).items() if count > 1]
    assert len(twice) <= 1, "but for the one whose verdict found no room"


def test_a_database_that_is_locked_for_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.database.engine.BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr("evolve.database.engine.LOCK_PATIENCE_S", 0.0)
    world = World(tmp_path)
    with world.create() as run:
        other = sqlite3.connect(world.directory / "run.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseFailedError, match=r"run\.db: database is locked"):
            run.heartbeat()
        other.execute("ROLLBACK")
        other.close()
        run.heartbeat()


def test_who_comes_second_erases_nothing_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both found the folder empty; one was quicker with the lock."""
    world = World(tmp_path)
    with world.create() as run:
        before = sorted(path.name for path in world.directory.iterdir())
        monkeypatch.setattr(RunDirectory, "make", lambda self: True)
        with pytest.raises(RunLockedError):
            world.create()
        assert sorted(path.name for path in world.directory.iterdir()) == before
        run.heartbeat()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM runs", "holds no run number 1"),
        ("UPDATE runs SET settings = '{'", "the settings of run 1 are damaged"),
    ],
)
def test_a_run_that_was_tampered_with_is_refused_in_one_line(tmp_path: Path, change: str, words: str) -> None:
    world = World(tmp_path)
    world.create().close()
    with sqlite3.connect(world.directory / "run.db") as other:
        other.execute(change)
    with RunView.open(world.directory) as view, pytest.raises(UsageError, match=words):
        _ = view.record


def test_a_run_that_cannot_be_read_gives_its_lock_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create().close()
    with sqlite3.connect(world.directory / "run.db") as other:
        other.execute("DROP TABLE cells")
    with pytest.raises(DatabaseFailedError, match="no such table: cells"):
        world.reopen()
    assert not RunDirectory(world.directory).locked()


def test_a_damaged_pointer_to_another_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "database.toml").write_text("url = [")
    with pytest.raises(UsageError, match=r"database\.toml: not a run's database"):
        RunView.open(tmp_path)


def test_a_page_that_is_damaged_is_said_when_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "some.db"
    with sqlite3.connect(file) as made:
        made.execute("CREATE TABLE runs (id INTEGER)")
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    engine = open_engine(parse_url(f"sqlite:///{file}"), read_only=True)
    with pytest.raises(DatabaseFailedError, match=r"some\.db: "):
        SqlStorage(engine, 1).run()


def test_a_log_that_cannot_be_written_costs_its_lines_alone() -> None:
    with LogFile(Path("/dev/full")) as log:
        log.on_note("best", "found")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = RunDirectory(tmp_path)
    folder.best("cpp").mkdir()
    with pytest.raises(UsageError, match=r"best\.cpp: cannot be written"):
        folder.write(folder.best("cpp"), "text")
    assert [path.name for path in tmp_path.iterdir()] == ["best.cpp"]
