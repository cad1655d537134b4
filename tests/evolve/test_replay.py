"""Recorded runs run again to the same lineage, whatever happened in them; and what is not the same is noticed."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import JudgeError, UsageError
from evaluators.evaluation import Status
from evaluators.task import ArchiveDimension
from evolve.database.dump import dump_run
from evolve.database.mail import NewAnswer
from evolve.database.mailbox import Mailbox
from evolve.database.steering import Steer
from evolve.database.steps import Opening, StepKind
from evolve.database.versions import HEAD, open_database
from evolve.loop import WeightedProposer, search
from evolve.observer import Silent
from evolve.proposers.tuner import Tuner
from evolve.replay.recording import open_recording
from evolve.replay.replayer import Replayed, replay
from evolve.run import Run
from evolve.run_directory import RunDirectory
from evolve.settings import Caps, RunSettings
from evolve.testing import FakeJudge, FakeProposer, fake_source
from evolve.types import ProgramState, Proposal, ProposeContext, Proposer
from evolve.view import RunView
from tests.evolve.conftest import CommandLine
from tests.evolve.searching import World, history, settings
from tests.evolve.test_resume import crash_at

PARTS = ("programs", "order", "cells", "islands", "migrations", "best", "events")


@dataclass
class Late(FakeProposer):
    """Answers after a while, in no particular order."""

    dice: random.Random = field(default_factory=lambda: random.Random(1))

    async def propose(self, context: ProposeContext) -> Proposal | None:
        proposal = await super().propose(context)
        for _ in range(self.dice.randrange(12)):
            await asyncio.sleep(0)
        return proposal


def mixed(context: ProposeContext) -> str | None:
    """Structures to be tuned, duplicates, failures, nothing at all: everything a run has to cope with."""
    number, score = context.number, context.parent.score or 1.0
    match number % 9:
        case 2:
            return fake_source(1.0, text="the same again and again", regs=1.0)
        case 4:
            return fake_source(0.0, status=Status.WRONG_VALUES, text=str(number))
        case 6:
            return None
        case 1 | 7:
            gains = ", ".join(f"{score + step:.3f}" for step in (-0.2, -0.1, 0.05, 0.1, 0.2))
            return f"# fake: score=GAIN regs={number % 8}\n# {number}\nGAIN = {score:.3f}  # tune: {gains}\n"
        case _:
            return fake_source(
                score + float(context.rng.normal(0, 0.1)), text=f"child {number}", regs=float(number % 8)
            )


def run_settings(caps: Caps | None = None, **changes: Any) -> RunSettings:
    values = {
        "lanes": 3,
        "queue": 2,
        "proposals": 3,
        "islands": 3,
        "migration_every": 7,
        "stagnation": 4,
        "tune_inside": 2,
        "tune_inside_from": ("fake",),
        **changes,
    }
    return settings(caps or Caps(candidates=45), **values)


def world_of(folder: Path, *, seed: int = 1, timed: bool = False, **changes: Any) -> World:
    """A run with everything in flight at once, and judge and proposer late by turns."""
    dice = random.Random(seed)
    judge = FakeJudge(timed=timed, profiles=timed)
    judge.confirm_status = lambda source: Status.NONDETERMINISTIC if "child 5" in source else Status.PASSED

    async def before(method: str, source: str) -> None:
        for _ in range(dice.randrange(15)):
            await asyncio.sleep(0)
        if dice.random() < 0.05:
            raise JudgeError("it fell over")

    judge.before = before
    return World(
        folder,
        run_settings(**changes),
        judge=judge,
        proposer=Late(mixed, dice=dice),
        task_options={
            "archive": (ArchiveDimension(measure="regs", low=0.0, high=8.0, bins=4),),
            "seed_source": fake_source(1.0, regs=1.0),
        },
    )


async def search_with_tuner(world: World, run: Run) -> None:
    """With the tuner beside the fake proposer, so that something is worked out again."""
    tuner = Tuner(world.task.flag_choices)
    proposers = [WeightedProposer(world.proposer, 2.0), WeightedProposer(tuner, 1.0)]
    await search(run, world.start_judge, proposers, observers=[world.recorder], stop=world.stop)


async def replay_of(
    recorded: Path, to: Path, *, again: Callable[[Opening], list[Proposer]] | None = None, given: Collection[str] = ()
) -> Replayed:
    """Replay a directory or a file."""
    recording = open_recording(recorded)
    with closing(recording.storage):
        task = recording.task_with_seed(to.parent / f"{to.name}-task")
        make = again or (lambda opening: [Tuner()])
        return await replay(recording, to, task, make, Silent(), as_recorded=given)


def histories(*directories: Path) -> list[dict[str, Any]]:
    found = []
    for directory in directories:
        with RunView.open(directory) as view:
            found.append({name: part for name, part in history(view).items() if name in PARTS})
    return found


async def check(world: World, to: Path) -> Replayed:
    """Replay a world's run; everything it came to is equal."""
    replayed = await replay_of(world.directory, to)
    assert replayed.difference == ""
    recorded, again = histories(world.directory, to)
    for name in PARTS:
        assert again[name] == recorded[name], name
    return replayed


def edit(directory: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(directory / "run.db")) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


class TestTheSameLineage:
    @pytest.mark.parametrize("timed", [False, True], ids=["value", "time"])
    @pytest.mark.parametrize("seed", range(3))
    async def test_of_a_run_with_many_in_flight(self, tmp_path: Path, seed: int, timed: bool) -> None:
        world = world_of(tmp_path, seed=seed, timed=timed)
        with world.create() as run:
            await search_with_tuner(world, run)
        replayed = await check(world, tmp_path / "again")
        with world.view() as view:
            kinds = Counter(step.kind for step in view.storage.steps())
            programs = list(view.storage.programs())
            assert replayed.programs == sum(p.state is ProgramState.FINISHED for p in programs)
            assert kinds[StepKind.MIGRATE]
            assert kinds[StepKind.RESET]
            assert kinds[StepKind.PASS]
            assert bool(kinds[StepKind.DUEL]) is timed
            assert any(p.duplicate_of for p in programs)
            assert any(p.variant_of for p in programs)
            assert any(p.proposer == "tuner" and not p.variant_of for p in programs)

    async def test_the_order_differs_from_that_of_one_worker(self, tmp_path: Path) -> None:
        """The scenario is one in which the order matters: else the tests above would show nothing."""
        worlds = [world_of(tmp_path / str(seed), seed=seed) for seed in range(2)]
        for world in worlds:
            with world.create() as run:
                await search_with_tuner(world, run)
        one, other = histories(*(world.directory for world in worlds))
        assert one["order"] != other["order"]

    async def test_of_a_run_that_was_stopped_and_resumed(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, timed=True)
        for number in (9, 17, 31):
            world.stop = stop = asyncio.Event()

            class StopAt(Silent):
                def on_queued(self, program: Any, at: int = number, stop: asyncio.Event = stop) -> None:
                    if program.number >= at:
                        stop.set()

            world.recorder = StopAt()  # type: ignore[assignment]
            with world.create() if number == 9 else world.reopen() as run:
                await search_with_tuner(world, run)
        world.stop = None
        with world.reopen(Caps(candidates=45)) as run:
            await search_with_tuner(world, run)
        await check(world, tmp_path / "again")

    @pytest.mark.parametrize("at", range(11, 100, 16))
    @pytest.mark.parametrize("timed", [False, True], ids=["value", "time"])
    async def test_of_a_run_that_was_killed_and_resumed(self, tmp_path: Path, at: int, timed: bool) -> None:
        world = world_of(tmp_path, timed=timed, caps=Caps(candidates=30))
        world.create().close()
        crashes = 0
        while crashes < 4 and await crash_at(world, at, after=crashes % 2 == 0):
            crashes += 1
        assert crashes
        await check(world, tmp_path / "crashed")
        await world.resume()
        await check(world, tmp_path / "again")

    async def test_of_a_run_whose_caps_refused_placements(self, tmp_path: Path) -> None:
        caps = Caps(device_seconds=0.6)
        world = world_of(tmp_path, timed=True, caps=caps)
        with world.create() as run:
            await search_with_tuner(world, run)
        for device_seconds in (0.7, 0.85, 1.1):
            await check(world, tmp_path / f"again{device_seconds}")
            with world.reopen(Caps(device_seconds=device_seconds)) as run:
                await search_with_tuner(world, run)
        with world.view() as view:
            assert any(step.kind is StepKind.REFUSE for step in view.storage.steps())
        await check(world, tmp_path / "again")

    async def test_of_a_run_with_one_on_which_the_judge_failed_for_good(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, timed=True, caps=Caps(candidates=20))

        async def before(method: str, source: str) -> None:
            if "child 3" in source or (method == "duel" and "child 12" in source):
                raise JudgeError("it always falls over")

        world.judge.before = before
        await world.run()
        assert any(p.judge_failed for p in world.programs())
        await check(world, tmp_path / "again")

    async def test_of_a_replayed_run(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, timed=True)
        await world.run()
        await check(world, tmp_path / "again")
        assert (await replay_of(tmp_path / "again", tmp_path / "once-more")).difference == ""
        first, last = histories(world.directory, tmp_path / "once-more")
        assert first == last

    async def test_a_replay_asks_no_judge_and_repeats_no_proposal(self, tmp_path: Path) -> None:
        world = world_of(tmp_path)
        await world.run()
        asked = len(world.judge.evaluated), len(world.judge.confirmed), len(world.proposer.told)
        await check(world, tmp_path / "again")
        assert (len(world.judge.evaluated), len(world.judge.confirmed), len(world.proposer.told)) == asked

    async def test_of_a_run_that_agents_handed_programs_to_and_people_steered(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evolve.inbox.LOOK_S", 0.0)
        world = world_of(tmp_path)
        late, asked = world.judge.before, 0
        world.create().close()
        location, number = RunDirectory(world.directory).locate()
        mailbox = Mailbox(open_database(location), number)

        def steer(kind: Steer, argument: str) -> None:
            mailbox.steer(kind, argument, argument, lambda documents: documents)

        async def before(method: str, source: str) -> None:
            nonlocal asked
            asked += 1
            if asked in {9, 14, 30}:
                text = fake_source(1.0 + asked / 10, text=f"by hand {asked}", regs=3.0)
                mailbox.add_answer(NewAnswer("me", "rewrite", "python", text, parents=(1,)))
            if asked == 12:
                steer(Steer.PAUSE, "1")
            if asked == 20:
                steer(Steer.BAN, "child 2")
            if asked == 26:
                steer(Steer.WEIGHT, "tuner=9")
            assert late is not None
            await late(method, source)

        world.judge.before = before
        with world.reopen() as run:
            await search_with_tuner(world, run)
        with world.reopen(Caps(candidates=60)) as run:
            await search_with_tuner(world, run)
        mailbox.close()
        with world.view() as view:
            kinds = Counter(step.kind for step in view.storage.steps())
        assert kinds[StepKind.TAKE] == 3
        assert kinds[StepKind.OBEY] >= 3
        await check(world, tmp_path / "again")
        engine = open_database(location, read_only=True)
        dump_run(engine, number, tmp_path / "run.jsonl")
        engine.dispose()
        assert (await replay_of(tmp_path / "run.jsonl", tmp_path / "of-a-file")).difference == ""


class TestDifferences:
    @pytest.fixture
    async def world(self, tmp_path: Path) -> World:
        world = world_of(tmp_path / "world", timed=True)
        with world.create() as run:
            await search_with_tuner(world, run)
        return world

    @pytest.mark.parametrize(
        ("statement", "number"),
        [
            ("UPDATE programs SET parents = '[1]' WHERE number = {tuned}", "tuned"),
            ("UPDATE programs SET island = island + 1 WHERE number = {plain}", "plain"),
            ("UPDATE programs SET source_hash = 'x' WHERE number = {plain}", "plain"),
            ("UPDATE texts SET text = text || 'x' WHERE hash = (SELECT text_hash FROM programs WHERE number = {plain})",
             "plain"),
            ("UPDATE texts SET text = text || 'x' WHERE hash = (SELECT text_hash FROM programs WHERE number = {tuned})",
             "tuned"),
            ("UPDATE programs SET placement = 'not_added' WHERE number = {best}", "best"),
            ("UPDATE programs SET variant_of = NULL WHERE number = {variant}", "variant"),
            ("UPDATE programs SET note = 'x' WHERE number = {tuned}", "tuned"),
            ("UPDATE evaluations SET score = 9 WHERE program = {plain}", "plain"),
            ("UPDATE runs SET best = 1", None),
            ("UPDATE cells SET program = 1 WHERE program = {best} AND island = -1", None),
            ("UPDATE islands SET stagnant = stagnant + 1 WHERE number = 0", None),
            ("DELETE FROM migrations WHERE round = 2", None),
            ("UPDATE duels SET occupant = 2 WHERE id = (SELECT MIN(id) FROM duels)", None),
            ("UPDATE steps SET text = '0 1' WHERE kind = 'ask' AND program = {plain}", "plain"),
            ("DELETE FROM steps WHERE kind = 'migrate'", None),
            ("DELETE FROM steps WHERE kind = 'finish' AND program = {best}", None),
            ("DELETE FROM steps WHERE kind = 'ask' AND program = {plain}", None),
            ("UPDATE steps SET kind = 'finish' WHERE kind = 'migrate'", None),
        ],
    )  # fmt: skip
    async def test_a_tampered_database_is_noticed(
        self, world: World, tmp_path: Path, statement: str, number: str | None
    ) -> None:
        programs = [p for p in world.programs() if p.number > 20 and p.duplicate_of is None]
        with world.view() as view:
            best = view.record.best or 0
        numbers = {
            "tuned": next(p.number for p in programs if p.proposer == "tuner" and not p.variant_of),
            "plain": next(p.number for p in programs if "child" in p.source and p.score is not None),
            "variant": next(p.number for p in programs if p.variant_of),
            "best": best,
        }
        edit(world.directory, statement.format(**numbers))
        try:
            difference = (await replay_of(world.directory, tmp_path / "again")).difference
        except UsageError as error:
            difference = str(error)
        assert difference
        assert "\n" not in difference
        if number is not None:
            assert f"program {numbers[number]}:" in difference

    async def test_another_verdict_leads_elsewhere(self, world: World, tmp_path: Path) -> None:
        """Columns and document say the same false score: what followed from the true one does not follow from it."""
        with world.view() as view:
            best = view.best()
        assert best is not None
        assert best.evaluation is not None
        edit(
            world.directory,
            "UPDATE evaluations SET score = 0.001, document = json_set(document, '$.score', 0.001, "
            "'$.timing.speedup.low', 0.001, '$.timing.speedup.estimate', 0.001, '$.timing.speedup.high', 0.001), "
            "speedup_low = 0.001, speedup = 0.001, speedup_high = 0.001 WHERE program = ?",
            best.number,
        )
        difference = (await replay_of(world.directory, tmp_path / "again")).difference
        assert f"program {best.number}: " in difference

    @pytest.mark.parametrize(
        ("where", "name"),
        [
            ("evolve.policies.selection.choose_parent", "the parent shown"),
            ("evolve.policies.islands.choose_migrants", "migration 1 was"),
        ],
    )
    async def test_another_policy_is_noticed(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, name: str
    ) -> None:
        module = {"choose_parent": "evolve.population", "choose_migrants": "evolve.tending"}
        function = where.rpartition(".")[2]
        other: dict[str, Any] = {
            "choose_parent": lambda ranked, explore, rng: ranked[-1],
            "choose_migrants": lambda islands, seed, number: (),
        }
        monkeypatch.setattr(f"{module[function]}.{function}", other[function])
        assert name in (await replay_of(world.directory, tmp_path / "again")).difference

    async def test_another_tuner_is_noticed_unless_it_is_taken_as_recorded(self, world: World, tmp_path: Path) -> None:
        class Other(Tuner):
            async def propose(self, context: ProposeContext) -> Proposal | None:
                await super().propose(context)
                return await super().propose(context)

        assert (
            "source_hash"
            in (await replay_of(world.directory, tmp_path / "again", again=lambda opening: [Other()])).difference
        )
        given = await replay_of(world.directory, tmp_path / "given", again=lambda opening: [Other()], given=["tuner"])
        assert given.difference == ""

    async def test_without_inside_tuning_the_replay_stops_where_the_run_tuned(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evolve.tuning.may_be_tuned", lambda *_: False)
        assert "tuned program" in (await replay_of(world.directory, tmp_path / "again")).difference


class TestWhatIsMissing:
    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("DELETE FROM steps", "was never begun, or is older than replays"),
            ("UPDATE runs SET task = ''", "was never begun, or is older than replays"),
            ("UPDATE runs SET task = '{}'", "its task was recorded by a version with other fields"),
            ("UPDATE steps SET text = '{}' WHERE kind = 'open'", "its settings were recorded by a version"),
            ("DELETE FROM evaluations WHERE program = 3", "the evaluation of program 3 is missing"),
            ("DELETE FROM programs WHERE number = 3", "program 3 is missing"),
        ],
    )
    async def test_is_said_in_one_line(self, tmp_path: Path, statement: str, message: str) -> None:
        world = world_of(tmp_path, caps=Caps(candidates=6))
        await world.run()
        edit(world.directory, statement)
        with pytest.raises(UsageError, match=message) as error:
            await replay_of(world.directory, tmp_path / "again")
        assert "\n" not in str(error.value)


class TestCommandLine:
    @pytest.fixture
    def recorded(self, evolve: CommandLine, toy: Path) -> None:
        caps = ["--set", "caps.candidates=12", "--set", "search.lanes=2"]
        assert evolve("run", toy, *caps, "--dir", "r").exit_code == 0

    def test_the_same_lineage(self, evolve: CommandLine, recorded: None) -> None:
        started = len(evolve.started)
        result = evolve("replay", "r", "--dir", "again")
        assert result.exit_code == 0, result.output
        assert "the same lineage: 12 programs, best" in result.output
        assert "the replayed run is in again" in result.output
        assert len(evolve.started) == started, "no judge was started"
        for command in (("show", "{}", "--json"), ("lineage", "{}", "5", "--json")):
            old, new = (json.loads(evolve(*(c.format(r) for c in command)).stdout) for r in ("r", "again"))
            for data in (old, new):
                data.pop("directory", None)
                data.pop("spent", None)
            assert old == new

    def test_of_a_search_that_goes_on_is_refused_and_of_one_that_was_killed_is_not(
        self, evolve: CommandLine, recorded: None
    ) -> None:
        """It said that the lineages differ: its last programs were not finished yet."""
        directory = RunDirectory(evolve.folder / "r")
        edit(directory.path, f"update runs set status = 'running', heartbeat_at = {time.time()}")
        result = evolve("replay", "r")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "its search goes on" in result.stderr
        edit(directory.path, f"update runs set heartbeat_at = {time.time() - 60}")
        assert evolve("replay", "r").exit_code == 0

    def test_without_a_folder_nothing_is_left(self, evolve: CommandLine, recorded: None) -> None:
        before = sorted(evolve.folder.rglob("*"))
        data = json.loads(evolve("replay", "r", "--json").stdout)
        assert (data["same"], data["difference"], data["programs"]) == (True, None, 12)
        assert sorted(evolve.folder.rglob("*")) == before

    def test_of_a_file(self, evolve: CommandLine, recorded: None, toy: Path) -> None:
        """The file alone: neither the run nor the task is there any more."""
        for name in ("run.jsonl", "run.jsonl.gz"):
            assert evolve("db", "dump", "r", name).exit_code == 0
        first = (evolve.folder / "run.jsonl.gz").read_bytes()
        evolve("db", "dump", "r", "again.jsonl.gz")
        assert (evolve.folder / "again.jsonl.gz").read_bytes() == first, "the same run gives the same bytes"
        assert len(first) < (evolve.folder / "run.jsonl").stat().st_size / 4
        shutil.rmtree("r")
        shutil.rmtree(toy)
        for name in ("run.jsonl", "run.jsonl.gz"):
            result = evolve("replay", name, "--dir", f"from-{name}")
            assert result.exit_code == 0, result.output
            assert "the same lineage: 12 programs" in result.output

    def test_a_difference_is_named_and_the_exit_code_says_no(self, evolve: CommandLine, recorded: None) -> None:
        edit(Path("r"), "UPDATE programs SET parents = '[2]' WHERE number = 5")
        result = evolve("replay", "r")
        assert result.exit_code == 3
        assert "not the same: program 5: parents was (2,) in the recorded run" in result.output

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("replay", "absent"), "absent: no such run"),
            (("replay", "notes.txt"), "notes.txt: is no run that evolve db dump wrote"),
            (("replay", "other.jsonl"), "other.jsonl: was written with database version 0000"),
            (("replay", "bad.jsonl"), "bad.jsonl: holds a row that does not fit"),
            (("replay", "empty.jsonl.gz"), "empty.jsonl.gz: is no run that evolve db dump wrote"),
            (("replay", "r", "--dir", "r"), "run folder r: is not empty"),
            (("db", "dump", "r", "absent/run.jsonl"), "absent/run.jsonl: cannot be written"),
        ],
    )
    def test_mistakes_are_one_line(
        self, evolve: CommandLine, recorded: None, arguments: tuple[str, ...], message: str
    ) -> None:
        head = {"format": "kernel-evolve run", "version": HEAD}
        Path("notes.txt").write_text("milk\n")
        Path("other.jsonl").write_text(json.dumps({**head, "version": "0000"}) + "\n")
        Path("bad.jsonl").write_text(json.dumps(head) + "\n" + json.dumps({"table": "cakes"}) + "\n")
        Path("empty.jsonl.gz").write_bytes(b"")
        result = evolve(*arguments)
        assert result.exit_code == 2
        assert message in result.output
        assert result.output.count("\n") == 1
