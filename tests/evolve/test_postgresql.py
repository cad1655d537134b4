"""Runs whose database is a PostgreSQL server: servers that go away, several hosts, what is forbidden."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from evaluators.errors import UsageError
from evolve.agents.awaiting import take_number
from evolve.agents.desk import Desk, Sheet
from evolve.config import Config, dump_config
from evolve.database import postgresql
from evolve.database.mailbox import Mailbox
from evolve.database.model_records import CallStatus, ModelCall
from evolve.database.records import NewRun
from evolve.database.sql_storage import SqlStorage
from evolve.database.steering import Steer
from evolve.database.versions import create_database, open_database
from evolve.errors import DatabaseFailedError, RunLockedError
from evolve.loop import Idle, search
from evolve.run import Run
from evolve.run_directory import RunDirectory
from evolve.settings import Caps, RunSettings
from evolve.testing import fake_source
from evolve.testing_llm.replies import Asked, Reply
from evolve.types import ProgramState, RunStatus
from tests.evolve.conftest import CommandLine
from tests.evolve.models.world import KEY, ROOT, configured, improving, look, owed, serving
from tests.evolve.postgres import Server
from tests.evolve.searching import ONE_WORKER, World, history, settings

RESTARTED = r"^database postgresql[^\n]*: [^\n]*; (what was stored before is kept, )?go on with evolve resume[^\n]*$"


def is_answered(call: ModelCall) -> bool:
    return call.reply is not None and call.reply.status is CallStatus.ANSWERED


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KEY", KEY)


@pytest.fixture
def world(tmp_path: Path, postgres_url: str) -> World:
    return World(tmp_path, settings(Caps(candidates=40)), url=postgres_url)


HANGS = """
import asyncio, sys
from evolve.cli import main
from evolve.cli.judging import Services
from evolve.testing import FakeJudge

async def hang(method, source):
    print("HANGING", flush=True)
    await asyncio.Event().wait()

async def start(settings):
    return FakeJudge(before=hang)

main(sys.argv[1:], obj=Services(start))
"""


class TestRuns:
    def test_from_the_command_line_as_with_a_file(self, evolve: CommandLine, toy: Path, postgres_url: str) -> None:
        """Run, resume, show, upgrade, dump and replay."""
        store = f"store.database={postgres_url}"
        done = evolve("run", toy, "--dir", "night", "--set", store, "--set", "caps.candidates=6")
        assert done.exit_code == 0, done.output
        assert not (evolve.folder / "night" / "run.db").exists()
        done = evolve("resume", "night", "--set", "caps.candidates=9", "--json")
        assert (done.exit_code, json.loads(done.stdout)["tried"]) == (0, 9), done.output
        assert evolve("show", "night").exit_code == 0
        assert evolve("steer", "night", "cap", "candidates=10").exit_code == 0
        asked = evolve("ask", "night", "--json")
        assert asked.exit_code == 0, asked.output
        Path(json.loads(asked.stdout)["asks"][0]["file"]).write_text(fake_source(3.0))
        told = evolve("tell", "night", 1, "--wait")
        assert told.exit_code == 0, told.output
        assert "It is the new best." in told.output
        assert "up to date" in evolve("db", "upgrade", "night").output
        assert "up to date" in evolve("db", "upgrade", postgres_url).output
        assert evolve("db", "dump", "night", "night.jsonl").exit_code == 0
        replayed = evolve("replay", "night.jsonl")
        assert replayed.exit_code == 0, replayed.output
        assert evolve("replay", "night").exit_code == 0

    async def test_the_same_search_as_in_a_file(self, world: World, tmp_path: Path) -> None:
        other = World(tmp_path / "other", world.settings)
        assert (await world.run()).status is RunStatus.FINISHED
        await other.run()
        with world.view() as ours, other.view() as theirs:
            assert history(ours) == history(theirs)

    def test_a_url_without_a_driver_is_spoken_to_by_ours(self, postgres_url: str) -> None:
        engine = create_database(postgres_url.replace("+psycopg", ""))
        assert engine.dialect.driver == "psycopg"
        engine.dispose()

    def test_two_that_make_the_tables_at_once(self, postgres_url: str) -> None:
        with ThreadPoolExecutor(4) as pool:
            engines = list(pool.map(create_database, [postgres_url] * 4))
        new = NewRun("a", "t", "h", RunSettings())
        assert [SqlStorage.create(engine, new).run().id for engine in engines] == [1, 2, 3, 4]
        for engine in engines:
            engine.dispose()

    def test_changing_them_may_take_longer_than_a_server_may_be_silent(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evolve.database.patient.SILENCE_S", 0.2)
        import psycopg  # noqa: PLC0415 - where it is missing there is no server

        somebody_else = psycopg.connect(postgres_url.replace("+psycopg", ""))
        somebody_else.execute("SELECT pg_advisory_lock(%s, 0)", (postgresql._CLAIM,))
        Timer(0.8, somebody_else.close).start()
        create_database(postgres_url).dispose()

    def test_a_password_is_written_nowhere(self, evolve: CommandLine, toy: Path, postgres_url: str) -> None:
        secret = "s3cret-word"
        url = postgres_url.replace("evolve@", f"evolve:{secret}@")
        arguments = ("--set", f"store.database={url}", "--set", "caps.candidates=3")
        done = evolve("run", toy, "--dir", "night", *arguments)
        assert done.exit_code == 0, done.output
        again = evolve("resume", "night", "--set", f"store.database={url}", "--set", "caps.candidates=4")
        assert again.exit_code == 0, again.output
        evolve("db", "dump", "night", "dumped.jsonl")
        written = [file.read_bytes() for file in evolve.folder.rglob("*") if file.is_file()]
        assert all(secret not in text for text in (done.output, again.output))
        assert all(secret.encode() not in content for content in written)


class TestAServerThatGoesAway:
    async def test_the_run_ends_in_one_line_and_goes_on_with_nothing_lost(
        self, world: World, postgres_server: Server
    ) -> None:
        async def stop_at_the_ninth(method: str, source: str) -> None:
            if len(world.judge.evaluated) == 8:
                postgres_server.stop()

        world.judge.before = stop_at_the_ninth
        with world.create() as run:
            try:
                with pytest.raises(DatabaseFailedError, match=RESTARTED):
                    await world.search(run)
            finally:
                postgres_server.start()
        world.judge.before = None
        assert len(world.judge.evaluated) == 9
        assert (await world.resume()).status is RunStatus.FINISHED
        assert all(program.state is ProgramState.FINISHED for program in world.programs())
        twice = [source for source, count in Counter(world.judge.evaluated).items() if count > 1]
        assert len(twice) <= 1, "but for the one whose verdict could not be stored"
        with world.view() as view:
            assert view.storage.totals().charge.candidates == 40

    def test_no_request_is_booked_twice_or_lost(
        self, evolve: CommandLine, toy: Path, tmp_path: Path, postgres_url: str, postgres_server: Server
    ) -> None:
        """It goes while models are being asked; what they cost by then is all in the books."""
        stopped = Event()

        def stop_at_the_twelfth(asked: Asked) -> Reply:
            if asked.number == 12 and not stopped.is_set():
                postgres_server.stop()
                stopped.set()
            return improving(asked)

        with serving(stop_at_the_twelfth) as server:
            file = configured(
                tmp_path / "c.toml",
                server,
                caps={"candidates": 30},
                search={"proposals": 8, "queue": 8},
                llm__providers__local={"concurrency": 8},
            )
            store = f"store.database={postgres_url}"
            done = evolve("run", toy, "--config", file, "--dir", "r", "--set", store)
            postgres_server.start()
            assert done.exit_code == 2, done.output
            assert "evolve resume" in done.output
            assert "Traceback" not in done.output
            again = evolve("resume", "r", "--json")
        assert again.exit_code == 0, again.output
        data = json.loads(again.stdout)
        total = data["models"]["total"]
        assert data["tried"] == 30
        assert total["requests"] == len(server.asked)
        assert 0 < total["open"] <= 8, "cut off: nobody knows what became of them"
        assert total["answers"] + total["open"] == total["requests"]
        assert total["dollars"] >= owed(server), "what was cut off counts with its worst case"
        with look(evolve.folder) as view:
            answered = [(c.request.program, c.request.step) for c in view.storage.model_calls() if is_answered(c)]
        assert len(answered) == len(set(answered)) == 29, "no question was paid for twice"

    def test_who_reads_or_hands_in_does_not_notice_a_restart(self, postgres_url: str, postgres_server: Server) -> None:
        storage = SqlStorage.create(create_database(postgres_url), NewRun("a", "t", "h", RunSettings()))
        mailbox = Mailbox(open_database(postgres_url), 1)
        assert mailbox.run().name == "a"
        postgres_server.stop()
        with pytest.raises(DatabaseFailedError, match=RESTARTED):
            mailbox.mail_count()
        postgres_server.start()
        assert mailbox.run().name == "a"
        mailbox.steer(Steer.HINT, "tile", "", lambda before: before)
        assert mailbox.mail_count().orders == 1
        with pytest.raises(DatabaseFailedError, match=RESTARTED):
            storage.heartbeat(1.0)
        with pytest.raises(DatabaseFailedError, match="connection was lost"):
            storage.heartbeat(1.0)
        assert storage.run().active_s == 0.0, "reading goes on"
        mailbox.close()
        storage.close()


class TestWhoWritesARun:
    """The lock in a run's folder says nothing to another host, which has a folder of its own."""

    def test_one_process_whatever_folder_it_has(self, world: World, tmp_path: Path) -> None:
        first = world.create()
        elsewhere = tmp_path / "elsewhere"
        shutil.copytree(world.directory, elsewhere)
        with pytest.raises(RunLockedError, match=rf"is written by evolve, process {os.getpid()} on \S+; wait for it"):
            Run.open(elsewhere, world.task, patience_s=0.0)
        first.close()
        Run.open(elsewhere, world.task).close()

    def test_a_process_that_is_killed_gives_it_free(self, toy: Path, tmp_path: Path, postgres_url: str) -> None:
        store = f"store.database={postgres_url}"
        process = subprocess.Popen(
            [sys.executable, "-c", HANGS, "run", str(toy), "--dir", "r", "--set", store, "--display", "none"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        assert "HANGING" in process.stdout.readline()
        shutil.copytree(tmp_path / "r", tmp_path / "copy")
        with Desk.open(tmp_path / "copy") as desk:
            assert desk.searching()
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert freed(desk)
            desk.open_run().close()


def freed(desk: Desk) -> bool:
    """The server notices within moments that a client on its own machine is gone."""
    return any(not desk.searching() or Event().wait(0.05) for _ in range(200))


class TestAgentsOnSeveralHosts:
    async def test_each_answer_becomes_one_program(self, world: World, tmp_path: Path) -> None:
        """Twelve agents with folders of their own, some with the same source at the same instant."""
        config = Config(task="fake", search=ONE_WORKER, caps=Caps())
        world.settings = RunSettings(search=ONE_WORKER, caps=Caps())
        with Run.create(world.directory, world.task, world.settings, url=world.url, config=dump_config(config)) as run:
            await search(run, world.start_judge, (), idle=Idle(leases=False))
            stop = asyncio.Event()
            searching = asyncio.create_task(search(run, world.start_judge, (), stop=stop, idle=Idle(wait=True)))
            hosts = [tmp_path / f"host{n}" for n in range(12)]
            for host in hosts:
                shutil.copytree(world.directory, host)
            with ThreadPoolExecutor(len(hosts)) as pool:
                told = [
                    asyncio.wrap_future(pool.submit(work, host, world, f"agent{n}", 2.0 + n // 3))
                    for n, host in enumerate(hosts)
                ]
                numbers = [number for numbers in await asyncio.gather(*told) for number in numbers]
            stop.set()
            await searching
        with world.reopen() as run:
            await search(run, world.start_judge, (), idle=Idle(leases=False))
        assert len(numbers) == len(set(numbers)) == 3 * len(hosts)
        programs = world.programs()
        assert sorted(numbers) == [p.number for p in programs[1:]]
        assert all(p.state is ProgramState.FINISHED for p in programs)
        assert max(Counter(world.judge.evaluated).values()) == 1, "equal sources are judged once"
        assert world.view().storage.waiting_answers() == []


def work(host: Path, world: World, name: str, score: float) -> list[int]:
    """One agent: asks, hands in and waits for its program's number, three times."""
    location, run_id = RunDirectory(host).locate()
    found = []
    with Desk(host, Mailbox(open_database(location), run_id), Config(task="fake"), world.task) as desk:
        for turn in range(3):
            lease = desk.ask(name, 60).lease
            answer = desk.tell(lease.id, Sheet(fake_source(score, text=f"# {turn}")))
            number = asyncio.run(take_number(desk, answer))
            assert isinstance(number, int), number
            found.append(number)
    return found


class TestWhatIsRefusedInOneLine:
    def test_a_database_that_is_not_there(self, postgres_server: Server) -> None:
        with pytest.raises(UsageError, match=r'^database [^\n]*: cannot be reached: [^\n]*"absent" does not exist$'):
            create_database(postgres_server.url("absent"))

    def test_an_account_that_may_make_no_tables(self, postgres_server: Server, postgres_url: str) -> None:
        postgres_server.sql("DROP ROLE IF EXISTS guest")
        postgres_server.sql("CREATE ROLE guest LOGIN")
        with pytest.raises(
            UsageError, match=r"^database [^\n]*: cannot be made: permission denied for schema public[^\n]*$"
        ):
            create_database(postgres_url.replace("evolve@", "guest@"))

    def test_somebody_elses_tables(self, postgres_server: Server, postgres_url: str) -> None:
        postgres_server.sql("CREATE TABLE recipes (name text)", make_url(postgres_url).database)
        with pytest.raises(UsageError, match="holds other tables than ours"):
            create_database(postgres_url)

    def test_a_lock_that_is_not_given_back(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(postgresql._SERVER_SIDE, "lock_timeout", "50")
        assert world.url is not None
        with world.create() as run, create_database(world.url).connect() as other:
            other.exec_driver_sql("LOCK TABLE runs")
            with pytest.raises(DatabaseFailedError, match=r"^database [^\n]*: canceling statement due to lock timeout"):
                run.heartbeat()
            other.rollback()
            run.heartbeat()

    def test_readers_cannot_write(self, world: World) -> None:
        world.create().close()
        with (
            world.view() as view,
            view.storage._engine.connect() as connection,
            pytest.raises(DBAPIError, match="read-only"),
        ):
            connection.exec_driver_sql("DELETE FROM steering")
