"""Crashes: at every commit a run ever makes, and by ``kill -9``. Nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evolve.run import Run
from evolve.run_directory import RunDirectory
from evolve.settings import Caps
from evolve.testing import FakeJudge, FakeProposer, fake_source, random_walk
from evolve.types import ProgramState, ProposeContext, RunStatus
from tests.evolve.searching import World, history, settings

WRITES = frozenset(
    {
        "add_program",
        "add_evaluation",
        "add_confirmation",
        "add_profile",
        "add_duel",
        "add_attempt",
        "add_ledger",
        "add_event",
        "add_model_call",
        "finish",
        "migrate",
        "reset",
    }
)


CANDIDATES = 16


class Crash(BaseException):
    """The process is gone: nobody catches it, and nothing is written any more."""


class CrashingStorage:
    """Hands everything through to a storage until the n-th write, which is lost or just made when it dies."""

    def __init__(self, storage: Any, at: int, *, after: bool) -> None:
        self._storage = storage
        self._at = at
        self._after = after
        self._writes = 0
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._storage, name)
        if name == "close":
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Crash(name)
            if name in WRITES:
                self._writes += 1
                if self._writes == self._at and not self._after:
                    self.dead = True
                    raise Crash(name)
            answer = method(*args, **kwargs)
            if name in WRITES and self._writes == self._at:
                self.dead = True
                raise Crash(name)
            return answer

        return call

    @property
    def writes(self) -> int:
        return self._writes


def mixed(context: ProposeContext) -> str:
    """Progress, failures and duplicates, all from the context: what a proposer without memory does."""
    kind = context.number % 7
    if kind == 3:
        return fake_source(1.0, text="a duplicate, time and again")
    if kind == 5:
        return fake_source(0.0, text=f"failure {context.number}").replace("status=passed", "status=wrong_values")
    return random_walk(context)


def world_in(folder: Path, *, timed: bool) -> World:
    judge = FakeJudge(timed=timed, profiles=timed)
    # One that looks best fails its confirmation, so that this path is among those interrupted.
    judge.confirm_status = _confirm
    return World(
        folder,
        settings(Caps(candidates=CANDIDATES), migration_every=5, stagnation=3),
        judge=judge,
        proposer=FakeProposer(mixed),
    )


def _confirm(source: str) -> Status:
    return Status.NONDETERMINISTIC if "child 6 " in source or "child 9 " in source else Status.PASSED


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A run's folder just after it was made, to be copied: making one anew each time takes longer than the run."""
    world = world_in(tmp_path / "fresh", timed=False)
    world.create().close()
    return world.directory


async def crash_at(world: World, at: int, *, after: bool, fresh: Path | None = None) -> bool:
    """Run until the n-th write kills it; ``False`` where the run ends before."""
    if fresh is not None:
        shutil.copytree(fresh, world.directory)
    run = world.reopen()
    storage = CrashingStorage(run.storage, at, after=after)
    dying = Run(RunDirectory(world.directory), storage, world.task, world.settings)  # type: ignore[arg-type]
    try:
        await world.search(dying)
    except Crash:
        return True
    finally:
        run.close()
    return False


@pytest.mark.parametrize(
    "step", [5, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(900)])], ids=["some", "all"]
)
@pytest.mark.parametrize("timed", [False, True], ids=["value", "time"])
async def test_a_crash_at_any_commit_changes_nothing(tmp_path: Path, fresh: Path, timed: bool, step: int) -> None:
    """Each write in turn is lost, or is the last thing done; after resuming the history is the uninterrupted one."""
    whole = world_in(tmp_path / "whole", timed=timed)
    await whole.run()
    with whole.view() as view:
        expected = history(view)
    kinds = Counter(entry[0] for entry in expected["ledger"])
    assert kinds["confirmation"] > 2, "the scenario covers what it claims to cover"
    assert bool(kinds["duel"]) is bool(kinds["profile"]) is timed
    assert expected["migrations"]
    assert any(kind == "reset" for kind, _ in expected["events"])
    at = 0
    for at in range(1, 1000, step):
        world = world_in(tmp_path / f"crash{at}", timed=timed)
        if not await crash_at(world, at, after=at % 2 == 0, fresh=fresh):
            break
        await world.resume()
        with world.view() as view:
            found = history(view)
        for part, value in expected.items():
            assert found[part] == value, f"crash at write {at}: {part}"
        judged = Counter(world.judge.evaluated)
        lost = sum(times - 1 for times in judged.values())
        assert lost <= 1, f"crash at write {at}: at most the answer whose commit was lost is asked for again"
        assert [p.number for p in world.programs() if p.state is not ProgramState.FINISHED] == []
    assert at > 50, "every write of the run was a crash once"


async def test_crash_after_crash_after_crash(tmp_path: Path, fresh: Path) -> None:
    whole = world_in(tmp_path / "whole", timed=True)
    await whole.run()
    world = world_in(tmp_path / "torn", timed=True)
    crashes = 0
    while await crash_at(world, 3, after=crashes % 2 == 0, fresh=None if crashes else fresh):
        crashes += 1
        assert crashes < 200
    assert crashes > 15
    with whole.view() as a, world.view() as b:
        expected, found = history(a), history(b)
    for part in ("programs", "order", "cells", "islands", "migrations", "best"):
        assert found[part] == expected[part], part


async def test_proposers_are_told_again_what_they_knew(tmp_path: Path, fresh: Path) -> None:
    world = world_in(tmp_path, timed=False)
    await crash_at(world, 40, after=True, fresh=fresh)
    before = [(p.number, p.duplicate_of, p.score) for p in world.proposer.told]
    world.proposer = FakeProposer(mixed)
    await world.resume()
    told = [(p.number, p.duplicate_of, p.score) for p in world.proposer.told]
    assert len(told) == len({number for number, *_ in told}) == CANDIDATES - 1, "each once"
    assert told[: len(before)] == before


async def test_many_lanes_lose_nothing_either(tmp_path: Path, fresh: Path) -> None:
    for at in range(5, 45, 8):
        world = world_in(tmp_path / str(at), timed=True)
        world.settings = settings(Caps(candidates=CANDIDATES), lanes=3, queue=2, proposals=2)
        assert await crash_at(world, at, after=at % 16 == 5, fresh=fresh)
        with world.view() as view:
            judged = {p.number: p.evaluation for p in view.storage.programs() if p.evaluation}
        await world.resume()
        programs = world.programs()
        assert len(programs) == CANDIDATES
        assert all(p.state is ProgramState.FINISHED for p in programs)
        assert {p.number: p.evaluation for p in programs if p.number in judged} == judged


async def test_attempts_are_not_forgotten_in_a_crash(tmp_path: Path, fresh: Path) -> None:
    """A program that takes the whole process down with it cannot do so for ever."""
    world = World(tmp_path, settings(Caps(candidates=2)))
    world.proposer = FakeProposer(lambda c: fake_source(2.0))

    async def before(method: str, source: str) -> None:
        if "score=2.0" in source:
            world.judge.closed = True
            raise JudgeError("the judge ended")

    world.judge.before = before
    assert await crash_at(world, 6, after=True, fresh=fresh)  # Dies right after the first failure was booked,
    assert await crash_at(world, 1, after=True)  # and after the second.
    with world.view() as view:
        assert view.storage.attempts(2) == 2
    await world.resume()
    program = world.programs()[1]
    assert program.judge_failed
    with world.view() as view:
        assert view.storage.attempts(2) == 3


KILLED = """
import asyncio, sys
from pathlib import Path
from evaluators.evaluation import Evaluation
from evolve.loop import WeightedProposer, search
from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evolve.run import Run
from evolve.testing import FakeJudge, FakeProposer, fake_task, random_walk
from tests.evolve.searching import settings
from evolve.settings import Caps

folder = Path(sys.argv[1])

class Slow(FakeJudge):
    async def evaluate(self, source, language):
        found = await super().evaluate(source, language)
        with (folder / "evaluated").open("a") as file:
            file.write(found.source_hash + "\\n")
        print("judged", flush=True)
        return found

async def main():
    async def start():
        return Slow()
    task = fake_task(folder / "task")
    run = folder / "run"
    chosen = settings(Caps(candidates=60), lanes=2, queue=2)
    opened = Run.open(run, task) if run.exists() else Run.create(run, task, chosen)
    with opened as run:
        await search(run, start, [WeightedProposer(FakeProposer(random_walk))])

asyncio.run(main())
"""


def test_kill_dash_nine_in_the_middle(tmp_path: Path) -> None:
    """A real process is killed, several times; what it had stored stays, and the run ends as if nothing had been."""
    survivors: dict[int, Any] = {}
    view_world = World(tmp_path)
    for kill_after in (3, 9, 11):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
        )
        assert process.stdout is not None
        for _ in range(kill_after):
            assert process.stdout.readline() == "judged\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with view_world.view() as view:
            now = {p.number: (p.source, p.evaluation) for p in view.storage.programs() if p.evaluation}
            assert view.record.status is RunStatus.RUNNING, "it could not say that it ended"
        assert {number: now[number] for number in survivors} == survivors
        survivors = now
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True, capture_output=True)
    with view_world.view() as view:
        programs = list(view.storage.programs())
        assert view.record.status is RunStatus.FINISHED
        assert view.progress().programs == 60
    assert all(p.state is ProgramState.FINISHED for p in programs)
    assert {p.number: (p.source, p.evaluation) for p in programs if p.number in survivors} == survivors
    asked = Counter((tmp_path / "evaluated").read_text().split())
    again = sum(times - 1 for times in asked.values())
    assert again <= 3 * 2, "only what was in the judge's two lanes at a kill is judged again"


def test_the_judge_is_not_asked_again_about_what_is_stored(tmp_path: Path) -> None:
    world = World(tmp_path, settings(Caps(candidates=5)))
    asyncio.run(world.run())
    first = list(world.judge.evaluated)
    asyncio.run(world.resume(Caps(candidates=8)))
    assert len(world.judge.evaluated) == 8
    assert world.judge.evaluated[:5] == first
