"""A database that cannot be written for a while: the search stands still, and nobody pays for it."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from evolve.database.model_records import CallStatus
from evolve.database.sql_storage import SqlStorage
from evolve.errors import DatabaseFailedError
from evolve.settings import Caps
from evolve.testing_llm.model_server import Manners
from evolve.testing_llm.replies import Asked, Reply
from tests.evolve.conftest import CommandLine
from tests.evolve.models.world import KEY, configured, improving, look, serving
from tests.evolve.searching import World, settings

HELD_S = 0.8
SILENCE_S = 0.3


class Holder:
    """Somebody else who has the database for themselves for a moment."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self._folder = folder
        self._url = url
        self.times = 0
        self.since = 0.0

    def hold(self) -> None:
        """Take it now, and give it back after :data:`HELD_S`."""
        self.times += 1
        self.since = time.monotonic()
        connection: Any
        if self._url is None:
            connection = sqlite3.connect(self._folder / "r" / "run.db", isolation_level=None, check_same_thread=False)
            connection.execute("BEGIN IMMEDIATE")
        else:
            import psycopg  # noqa: PLC0415 - where it is missing there is no server

            connection = psycopg.connect(self._url.replace("+psycopg", ""))
            connection.execute("LOCK TABLE runs")
        Timer(HELD_S, connection.close).start()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def test_what_models_say_meanwhile_is_heard_and_not_asked_again(
    evolve: CommandLine, toy: Path, tmp_path: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream is under way while the loop waits for the lock, for longer than it may be silent."""
    monkeypatch.setenv("LOCAL_KEY", KEY)
    monkeypatch.setattr("evolve.flow.HEARTBEAT_S", 0.05)
    holder = Holder(evolve.folder, url)

    def script(asked: Asked) -> Reply:
        if asked.number == 3:
            holder.hold()
        return improving(asked)

    with serving(script, Manners(key=KEY, piece_s=0.05)) as server:
        file = configured(
            tmp_path / "c.toml",
            server,
            caps={"candidates": 5},
            search={"proposals": 1},
            llm__patience={"silence_s": SILENCE_S, "first_byte_s": SILENCE_S},
        )
        store = () if url is None else ("--set", f"store.database={url}")
        done = evolve("run", toy, "--config", file, "--dir", "r", *store)
    assert done.exit_code == 0, done.output
    assert holder.times == 1
    assert len(server.asked) == 4
    with look(evolve.folder) as view:
        calls = [call.reply for call in view.storage.model_calls()]
    longest = max(reply.wall_s or 0.0 for reply in calls if reply is not None)
    assert longest > HELD_S / 2, "the loop did stand still, and this call with it"


def test_a_lock_that_is_held_for_long_costs_no_answer(
    evolve: CommandLine, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than one wait for it lasts: the search waits again, and says so, rather than lose what it heard."""
    monkeypatch.setenv("LOCAL_KEY", KEY)
    monkeypatch.setattr("evolve.database.engine.BUSY_TIMEOUT_MS", 50)
    holder = Holder(evolve.folder, None)

    def script(asked: Asked) -> Reply:
        if asked.number == 3:
            holder.hold()
        return improving(asked)

    with serving(script, Manners(key=KEY)) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 6}, search={"proposals": 3})
        done = evolve("run", toy, "--config", file, "--dir", "r")
    assert done.exit_code == 0, done.output
    assert holder.times == 1
    with look(evolve.folder) as view:
        calls = [call.reply for call in view.storage.model_calls()]
    assert all(reply is not None and reply.status is CallStatus.ANSWERED for reply in calls)
    assert len(calls) == len(server.asked)
    assert [r.message.partition("run.db")[2] for r in caplog.records if "lock" in r.message] == [
        ": another process holds its lock; waiting for it"
    ]


def test_a_lock_that_is_never_given_back_ends_the_search_once(
    evolve: CommandLine, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in flight at the end does not wait for it again, each for as long."""
    monkeypatch.setenv("LOCAL_KEY", KEY)
    monkeypatch.setattr("evolve.database.engine.BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr("evolve.database.engine.LOCK_PATIENCE_S", 0.3)
    monkeypatch.setattr("tests.evolve.test_stalls.HELD_S", 3.0)
    holder = Holder(evolve.folder, None)

    def script(asked: Asked) -> Reply:
        if asked.number == 8:
            holder.hold()
        return improving(asked)

    with serving(script, Manners(key=KEY, piece_s=0.05)) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 30}, search={"proposals": 8})
        done = evolve("run", toy, "--config", file, "--dir", "r")
        took = time.monotonic() - holder.since
    assert done.exit_code == 2
    assert "database is locked" in done.output
    assert took < 2.0, "eight calls in flight, and none waited for the lock anew"


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_a_server_that_hangs_is_given_up(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host's kernel goes on answering for it, so that no timeout of the network's ends the wait."""
    monkeypatch.setattr("evolve.database.patient.SILENCE_S", 0.3)
    world = World(tmp_path, settings(Caps(candidates=3)), url=postgres_url)
    with world.create() as run:
        storage = run.storage
        assert isinstance(storage, SqlStorage)
        backend = storage._connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        storage._connection.rollback()
        with stopped(backend):
            with pytest.raises(DatabaseFailedError, match=r"the server has not answered for 0\.3 s; .* evolve resume"):
                run.heartbeat()
            with pytest.raises(DatabaseFailedError, match="connection was lost"):
                run.heartbeat()
