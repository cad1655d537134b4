"""A judge that never gets ready: one line, and not for ever."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from threading import Event

import pytest

from evaluators.client import JudgeReady
from evaluators.task import Baseline
from evolve.errors import JudgeUnavailableError
from evolve.judge_keeper import STARTS, JudgeHungError, JudgeKeeper
from evolve.judging import ready_deadline_s
from evolve.testing import FakeJudge, fake_task

WORDS = r"^[^\n]*the judge was not ready within 0\.01 s: its baselines take too long, or it hangs$"


class Stuck(FakeJudge):
    async def ready(self) -> JudgeReady:
        await asyncio.Event().wait()
        raise AssertionError


async def test_the_first_start() -> None:
    judge = Stuck()

    async def start() -> FakeJudge:
        return judge

    with pytest.raises(JudgeHungError, match=WORDS):
        await JudgeKeeper(start, ready_s=0.01).open()
    assert judge.closed, "nothing of it is left"


async def test_starting_anew_in_the_middle_of_a_run() -> None:
    started: list[FakeJudge] = []

    async def start() -> FakeJudge:
        started.append(Stuck() if started else FakeJudge())
        return started[-1]

    keeper = JudgeKeeper(start, ready_s=0.01)
    await keeper.open()
    await keeper.discard()
    with pytest.raises(JudgeUnavailableError, match=WORDS):
        await keeper.call(lambda judge: judge.evaluate("x", "python"), 1.0)
    assert len(started) == 1 + STARTS
    assert all(judge.closed for judge in started)


def test_a_task_with_more_to_measure_gives_it_longer(tmp_path: Path) -> None:
    plain = fake_task(tmp_path)
    baseline = Baseline(name="b", file="seed.py", language="python")
    more = plain.model_copy(update={"baselines": (baseline, baseline)})
    assert ready_deadline_s(more) == 2 * ready_deadline_s(plain) >= 120


async def test_what_it_waits_for_another_judge_is_not_its_fault() -> None:
    """However long another judge of the machine has the device."""

    class Waiting(FakeJudge):
        looked = 0

        async def ready(self) -> JudgeReady:
            async with asyncio.timeout(20):
                while self.looked < 3:
                    await asyncio.sleep(0.01)
            return await super().ready()

        def held_up_s(self, last_s: float) -> float:
            self.looked += 1
            return last_s

    judge = Waiting()

    async def start() -> FakeJudge:
        return judge

    await JudgeKeeper(start, ready_s=0.01).open()
    assert not judge.closed


async def test_an_answer_that_came_while_this_process_stood_still_is_heard() -> None:
    """A lock on the database held the loop up for longer than the judge may take; the judge had answered in time."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def start() -> FakeJudge:
        return FakeJudge()

    async def answer(_: object) -> bytes:
        return await loop.sock_recv(ours, 9)

    keeper = JudgeKeeper(start, ready_s=5.0)
    await keeper.open()
    with ours, theirs:
        asking = asyncio.create_task(keeper.call(answer, 0.05))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        theirs.send(b"a verdict")
        Event().wait(0.3)
        assert await asking == b"a verdict"
