"""Runs on disk: making, opening, refusing, and the ask/tell core."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluators.errors import UsageError
from evaluators.task_rules import program_language
from evolve.database.mail import NewLease
from evolve.database.mailbox import Mailbox
from evolve.database.model_records import Dialogue
from evolve.database.versions import open_database
from evolve.errors import BudgetRefusedError, DatabaseVersionError, EvolveError, RunLockedError
from evolve.run import Run
from evolve.run_directory import MOMENT_S, RunDirectory
from evolve.settings import Caps
from evolve.testing import fake_source, fake_task
from evolve.types import Program, Proposal, RunStatus, StopReason
from tests.evolve.searching import World, book_model_call, settings


def give_leases(run: Run, count: int) -> None:
    """Agents take places under the cap that the search has not heard of."""
    with closing(Mailbox(open_database(f"sqlite:///{run.directory.database}"), 1)) as mailbox:
        for _ in range(count):
            mailbox.add_lease(NewLease("ann", 1, 1, (), 3600))


def proposal(text: str = "", **changes: object) -> Proposal:
    return Proposal(
        **{
            "source": fake_source(2.0, text=text),
            "language": "python",
            "operator": "mutate",
            "proposer": "me",
            **changes,
        }
    )  # type: ignore[arg-type]


class TestDirectory:
    def test_a_new_run_has_its_files_and_its_record(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        with Run.create(world.directory, world.task, world.settings, config="seed = 3\n") as run:
            assert run.storage.run().settings == world.settings
        assert {path.name for path in world.directory.iterdir()} == {"run.db", "config.toml", "lock"}
        assert (world.directory / "config.toml").read_text() == "seed = 3\n"

    def test_a_folder_with_something_in_it_is_left_alone(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.directory.mkdir(parents=True)
        (world.directory / "thesis.tex").write_text("x")
        with pytest.raises(UsageError, match="is not empty"):
            world.create()
        assert [path.name for path in world.directory.iterdir()] == ["thesis.tex"]

    def test_a_file_in_the_way(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.directory.write_text("x")
        with pytest.raises(UsageError, match=r"run folder .*/run: "):
            world.create()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_may_not_be_written(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.directory.mkdir(mode=0o500)
        with pytest.raises(UsageError, match="may not be written"):
            world.create()

    def test_a_database_that_cannot_be_used_leaves_nothing_behind(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        for url in ("nonsense", f"sqlite:///{tmp_path}/absent/x.db"):
            with pytest.raises(UsageError):
                Run.create(world.directory, world.task, world.settings, url=url)
            assert not world.directory.exists()

    def test_a_folder_without_a_run(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="holds no run"):
            World(tmp_path).reopen()
        assert not (tmp_path / "run").exists()

    def test_a_run_from_a_newer_version_is_left_alone(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        with world.create() as run, run.storage._connection.begin():  # type: ignore[attr-defined]
            run.storage._connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")  # type: ignore[attr-defined]
        before = (world.directory / "run.db").read_bytes()
        with pytest.raises(DatabaseVersionError):
            world.reopen()
        assert (world.directory / "run.db").read_bytes() == before

    def test_another_task_is_refused(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.create().close()
        other = world.task.model_copy(update={"hash": "0" * 64})
        with pytest.raises(UsageError, match="its task fake was another when it began"):
            Run.open(world.directory, other)

    def test_caps_may_be_raised_but_the_seed_stays(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.create().close()
        with world.reopen(Caps(candidates=99)) as run:
            assert run.budget.caps.candidates == 99
        with world.reopen() as run:
            assert run.settings.caps.candidates == 99, "they are stored"
        with pytest.raises(UsageError, match=r"search.seed is 3 and cannot become 4"):
            Run.open(world.directory, world.task, settings(Caps(), seed=4))
        world.reopen().close()

    def test_a_run_in_another_database_is_found_again(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        url = f"sqlite:///{tmp_path}/shared.db"
        for name in ("one", "two"):
            Run.create(tmp_path / name, world.task, world.settings, url=url).close()
        with Run.open(tmp_path / "two", world.task) as run:
            assert run.storage.run().name == "two"
        assert not (tmp_path / "two" / "run.db").exists()

    def test_a_password_is_not_written(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        with world.create() as run:
            run.directory.name_database("postgresql+psycopg://me:secret@host/db", 4)
        text = (world.directory / "database.toml").read_text()
        assert "secret" not in text
        assert "me@host/db" in text


class TestLock:
    def test_a_second_writer_is_refused_by_name(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        with world.create(), pytest.raises(RunLockedError, match=rf"process {os.getpid()} has it open"):
            Run.open(world.directory, world.task, patience_s=0.0)
        world.reopen().close()

    def test_a_run_made_in_the_same_folder_at_the_same_time_is_left_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = World(tmp_path)
        with world.create() as run:
            monkeypatch.setattr(RunDirectory, "make", lambda _self: False)  # It looked before the first run's files.
            with pytest.raises(RunLockedError):
                world.create()
            assert {"run.db", "lock"} <= {path.name for path in world.directory.iterdir()}
            run.heartbeat()

    def test_the_lock_of_a_killed_process_is_free(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.create().close()
        code = (
            "import sys, time\nfrom pathlib import Path\nfrom evolve.run_directory import RunDirectory\n"
            "d = RunDirectory(Path(sys.argv[1])); d.acquire(); print('locked', flush=True); time.sleep(600)"
        )
        holder = subprocess.Popen([sys.executable, "-c", code, str(world.directory)], stdout=subprocess.PIPE, text=True)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "locked\n"
            with pytest.raises(RunLockedError, match=f"process {holder.pid} has it open"):
                Run.open(world.directory, world.task, patience_s=0.0)
        finally:
            holder.kill()
            holder.wait()
            holder.stdout.close()  # type: ignore[union-attr]
        world.reopen().close()

    def test_who_holds_it_for_a_moment_is_waited_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An agent's command takes in what it was told, in a large run or on a busy machine: half a second and more."""
        world = World(tmp_path)
        world.create().close()
        holder = RunDirectory(world.directory)
        holder.acquire()
        now = 0.0

        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            if now > 2.0:
                holder.release()

        monkeypatch.setattr("evolve.run_directory.time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
        world.reopen().close()
        assert 2.0 < now < MOMENT_S

    def test_looking_needs_no_lock(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        with world.create(), world.view() as view:
            assert view.record.status is RunStatus.INTERRUPTED


class TestAskAndTell:
    async def seeded(self, world: World) -> Run:
        """A run whose seed is placed, and nothing else."""
        caps = world.settings.caps
        world.settings = settings(Caps(candidates=1))
        await world.run()
        return world.reopen(caps)

    async def test_asking_before_the_seed_is_placed(self, tmp_path: Path) -> None:
        with World(tmp_path).create() as run, pytest.raises(EvolveError, match="seed program has to be judged"):
            run.ask()

    async def test_ask_shows_parents_and_tell_stores_the_source_alone(self, tmp_path: Path) -> None:
        with await self.seeded(World(tmp_path)) as run:
            context = run.ask()
            assert (context.number, context.parent.number, context.island) == (2, 1, 1)
            program = run.tell(context, proposal(parents=(1,), note="why"))
            assert program is not None
            assert (program.number, program.generation, program.evaluation) == (2, 1, None)
            assert run.storage.program(2) == program

    async def test_what_is_asked_counts_until_it_is_told(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=3)))
        with await self.seeded(world) as run:
            first, second = run.ask(), run.ask()
            assert not run.may_ask()
            with pytest.raises(BudgetRefusedError, match="cap on candidates leaves no room"):
                run.ask()
            assert run.tell(first, None) is None
            assert run.may_ask(), "nothing to offer gives the place back"
            run.tell(second, proposal())
            assert run.tell(run.ask(), proposal("other")) is not None
            assert run.stop_reason() is StopReason.CANDIDATES

    async def test_what_is_on_its_way_is_known_to_agents_until_it_is_stored(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=4)))
        with await self.seeded(world) as run:
            known: list[int] = []
            first, second = run.ask(), run.ask()
            known.append(run.storage.run().promised)
            run.tell(first, proposal())
            known.append(run.storage.run().promised)
            assert isinstance(run.hand_in(proposal("handed in"), None), Program)
            known.append(run.storage.run().promised)
            assert run.hand_in(proposal("one too many"), None) is StopReason.CANDIDATES
            known.append(run.storage.run().promised)
            run.tell(second, proposal("second"))
            known.append(run.storage.run().promised)
            assert known == [2, 1, 1, 1, 0]

    async def test_what_a_killed_process_had_on_its_way_is_forgotten(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=4)))
        with await self.seeded(world) as run:
            run.ask()
        with world.reopen() as run:
            assert run.storage.run().promised == 1
            run.note_opening({})
            assert run.storage.run().promised == 0

    async def test_a_broken_off_dialogue_waits_where_the_last_place_is_given_away(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=3)))
        with await self.seeded(world) as run:
            for number in (2, 3):
                run.storage.open_dialogue(Dialogue(number, "llm", 1, 1, (), "python", "diff", "p/m"))
            run.broken_off.take_up(["llm"])
            give_leases(run, 2)
            with pytest.raises(BudgetRefusedError):
                run.ask()
            assert run.storage.run().promised == 0, "it is not on its way"
            run.budget.caps = Caps(candidates=5)
            assert [(c.number, c.resumes) for c in (run.ask(), run.ask())] == [(2, "llm"), (3, "llm")]

    async def test_what_finds_no_room_again_and_again_asks_the_database_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Answers that wait are tried at every turn of the loop, and a write waits for every other writer."""
        with await self.seeded(World(tmp_path, settings(Caps(candidates=2)))) as run:
            give_leases(run, 1)
            asked: list[int] = []
            promise = run.storage.promise
            monkeypatch.setattr(run.storage, "promise", lambda n, fits: (asked.append(n), promise(n, fits)))
            for number in range(5):
                assert run.hand_in(proposal(str(number)), None) is StopReason.CANDIDATES
            assert len(asked) == 1
            assert isinstance(run.hand_in(proposal(), None, placed=True), Program), "who has a place gets it"

    async def test_a_context_is_told_once(self, tmp_path: Path) -> None:
        with await self.seeded(World(tmp_path)) as run:
            context = run.ask()
            run.tell(context, None)
            with pytest.raises(KeyError):
                run.tell(context, proposal())

    async def test_generations_follow_the_oldest_line(self, tmp_path: Path) -> None:
        with await self.seeded(World(tmp_path)) as run:
            run.tell(run.ask(), proposal("a", parents=(1,)))
            third = run.tell(run.ask(), proposal("b", parents=(1, 2)))
            assert third is not None
            assert third.generation == 2

    async def test_model_calls_are_booked_and_survive(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(dollars=1.0)))
        with await self.seeded(world) as run:
            book_model_call(run, 2, 0.75, 6)
            assert run.stop_reason() is None
            book_model_call(run, 3, 0.25, 4)
            assert run.stop_reason() is StopReason.DOLLARS
        with world.reopen() as run:
            assert run.stop_reason() is StopReason.DOLLARS
            assert run.budget.spent.charge.tokens == 10


class TestView:
    async def test_a_notebook_reads_a_run(self, tmp_path: Path) -> None:
        import evolve  # noqa: PLC0415

        world = World(tmp_path)
        await world.run()
        view = evolve.open_run(world.directory)
        assert repr(view) == f"<run {world.directory}: task {view.record.task_name}, 30 programs, finished>"
        table = view.programs()
        assert list(table["number"]) == list(range(1, 31))
        best = view.best()
        assert best is not None
        row = table[table["number"] == best.number].iloc[0]
        assert (row["score"], row["status"], bool(row["confirmed"])) == (best.score, "passed", True)
        assert table["score"].max() == best.score
        line = view.lineage(best.number)
        assert (line[0].number, line[-1].number) == (best.number, 1)
        assert all(child.parents[0] == parent.number for child, parent in pairwise(line))
        view.close()

    def test_what_a_notebook_catches_is_at_hand(self, tmp_path: Path) -> None:
        import evolve  # noqa: PLC0415

        with pytest.raises(evolve.UsageError, match=r"no such run|no run"):
            evolve.open_run(tmp_path)

    async def test_without_pandas_rows_are_dicts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        world = World(tmp_path)
        await world.run()
        monkeypatch.setitem(sys.modules, "pandas", None)
        with world.view() as view:
            rows = view.programs()
        assert rows[0]["operator"] == "seed"
        assert len(rows) == 30

    async def test_looking_changes_nothing(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        await world.run()
        before = (world.directory / "run.db").read_bytes()
        with world.view() as view:
            view.programs()
            view.progress()
            with pytest.raises(Exception, match="readonly"):
                view.storage._reading.exec_driver_sql("DELETE FROM cells")
        assert (world.directory / "run.db").read_bytes() == before

    async def test_the_queries_in_the_docs_work(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        with world.create() as run:
            await world.search(run)
            book_model_call(run, 99, 0.25, 10)
        page = (Path(__file__).parents[2] / "docs" / "database.md").read_text()
        queries = [query for query in page.split("```sql")[1].split("```")[0].split(";") if query.strip()]
        with closing(sqlite3.connect(world.directory / "run.db")) as connection:
            operators, money, costs, best = (connection.execute(query).fetchall() for query in queries)
        assert {row[0] for row in operators} == {"seed", "mutate"}
        assert money == [("p/m", "diff", 1, 1, 0.25)]
        assert {row[0] for row in costs} == {"evaluation", "confirmation", "model"}
        assert best[0][0] == (world.directory / "best.py").read_text()

    async def test_view_and_run_report_the_same_progress(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        with world.create() as run:
            await world.search(run)
            mine = run.progress()
        with world.view() as view:
            theirs = view.progress()
        for name in ("status", "programs", "finished", "duplicates", "verdicts", "best", "caps"):
            assert getattr(mine, name) == getattr(theirs, name), name
        assert mine.spent.charge.device_s == pytest.approx(theirs.spent.charge.device_s)
        assert mine.spent.since_best == theirs.spent.since_best


def test_importing_evolve_is_light() -> None:
    heavy = ("sqlalchemy", "numpy", "pandas", "optuna", "rich", "torch")
    code = f"import sys, evolve; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_loop_needs_no_heavy_packages() -> None:
    heavy = ("optuna", "pandas", "rich", "torch", "alembic", "scipy", "matplotlib")
    code = f"import sys, evolve.loop; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_seed_is_read_in_the_language_of_its_name(tmp_path: Path) -> None:
    from evolve.intake import seed_proposal  # noqa: PLC0415

    task = fake_task(tmp_path)
    assert seed_proposal(task).language == "python"
    several = task.model_copy(update={"languages": ("cpp", "triton", "python")})
    assert seed_proposal(several).language == "triton"
    assert program_language(several, "best.py") == "triton", "evolve eval and check read it as the run does"
