"""Deadlines: they end what takes too long, and do not take our own standing still for somebody's silence."""

from __future__ import annotations

import asyncio

import pytest

from evolve.llm.clock import LAST_LOOK_S, Deadline

LONG = 1000.0


class StandsStill:
    """Lets the loop's clock jump, as if the loop had been held up for so long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real, self._offset = loop.time, 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self._offset)

    async def pass_by(self, seconds: float) -> None:
        """Nothing is run in this time; afterwards everything that is due is."""
        self._offset += seconds
        for _ in range(5):
            await asyncio.sleep(0)


async def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError):
        async with Deadline(0.01):
            await asyncio.Event().wait()


async def test_what_is_done_in_time_is_not_and_postponing_gives_more_time() -> None:
    async with Deadline(0.01) as deadline:
        deadline.postpone(LONG)
        await asyncio.sleep(0.05)


async def test_a_deadline_that_comes_while_the_loop_stands_still_is_put_off_by_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held_up = StandsStill(monkeypatch)
    heard = []

    async def listen() -> None:
        async with Deadline(LONG):
            for seconds in (LONG + 30, 25, 6):
                await held_up.pass_by(seconds)
                heard.append(seconds)

    with pytest.raises(TimeoutError):
        await listen()
    assert heard == [LONG + 30, 25]


async def test_it_is_put_off_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is always late must not make deadlines endless."""
    held_up = StandsStill(monkeypatch)

    async def listen() -> None:
        async with Deadline(LONG):
            await held_up.pass_by(LONG + 30)
            await held_up.pass_by(60)

    with pytest.raises(TimeoutError):
        await listen()


async def test_standing_still_before_the_deadline_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    held_up = StandsStill(monkeypatch)
    async with Deadline(LONG):
        await held_up.pass_by(LONG / 2)


async def test_what_came_before_the_deadline_is_heard_however_little_it_was_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held_up = StandsStill(monkeypatch)
    async with Deadline(LONG) as deadline:
        await held_up.pass_by(LONG + LAST_LOOK_S / 2)
        deadline.postpone(LONG)
        await held_up.pass_by(LONG / 2)


async def test_what_comes_at_the_last_instant_still_postpones_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece and the deadline's end are due in one turn of the loop; whoever waits for the piece has not run yet."""
    held_up = StandsStill(monkeypatch)
    piece = asyncio.Event()

    async def listen() -> None:
        async with Deadline(LONG) as deadline:
            await piece.wait()
            deadline.postpone(LONG)
            await held_up.pass_by(LONG / 2)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    await held_up.pass_by(LONG)
    asyncio.get_running_loop().call_later(LAST_LOOK_S / 2, piece.set)
    await held_up.pass_by(LAST_LOOK_S * 2)
    await listening


async def test_somebody_elses_cancelling_is_no_timeout() -> None:
    async def wait() -> None:
        async with Deadline(LONG):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
