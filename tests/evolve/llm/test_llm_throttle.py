"""A provider's limits hold with many calls waiting."""

from __future__ import annotations

import asyncio

from evolve.llm.settings import ModelName, ProviderSettings
from evolve.llm.throttle import Throttle

MODEL = ModelName("p", "m")


class Simulation:
    """A clock on which sleepers wake in order, as soon as nothing else can run."""

    def __init__(self) -> None:
        self.time = 0.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        self._sleepers.append((self.time + seconds, event))
        await event.wait()

    async def run(self, *tasks: asyncio.Task) -> None:
        while not all(t.done() for t in tasks):
            for _ in range(50):
                await asyncio.sleep(0)
            if self._sleepers:
                self._sleepers.sort(key=lambda s: s[0])
                self.time, event = self._sleepers.pop(0)
                event.set()


async def _starts(settings: ProviderSettings, calls: int, seconds: float, tokens: int = 0) -> tuple[list[float], int]:
    clock = Simulation()
    throttle = Throttle(settings, clock)
    starts, running, most = [], 0, 0

    async def call() -> None:
        nonlocal running, most
        async with throttle.slot(MODEL, tokens):
            starts.append(clock.time)
            running += 1
            most = max(most, running)
            await clock.sleep(seconds)
            running -= 1

    await clock.run(*[asyncio.create_task(call()) for _ in range(calls)])
    return starts, most


def _most_in_a_minute(starts: list[float]) -> int:
    return max(sum(s <= t < s + 60 for t in starts) for s in starts)


async def test_calls_at_once_never_exceed_the_limit():
    starts, most = await _starts(ProviderSettings(concurrency=4), 40, 1.0)
    assert most == 4
    assert max(starts) == 9.0


async def test_requests_a_minute_hold_over_any_minute():
    starts, _ = await _starts(ProviderSettings(concurrency=99, requests_per_minute=30), 120, 0.1)
    assert _most_in_a_minute(starts) <= 30 * 1.1 + 1
    assert max(starts) < 4.2 * 60


async def test_tokens_a_minute_hold_even_for_calls_larger_than_the_allowance_at_once():
    starts, _ = await _starts(ProviderSettings(concurrency=99, tokens_per_minute=1000), 20, 0.1, tokens=250)
    assert _most_in_a_minute(starts) * 250 <= 1000 * 1.1 + 250


async def test_what_was_not_used_is_given_back():
    clock = Simulation()
    throttle = Throttle(ProviderSettings(tokens_per_minute=600), clock)
    async with throttle.slot(MODEL, 60):
        pass
    throttle.correct(taken=60, used=10)
    async with throttle.slot(MODEL, 50):
        assert clock.time == 0.0


async def test_a_pause_holds_every_call_to_the_model_and_no_other():
    clock = Simulation()
    throttle = Throttle(ProviderSettings(), clock)
    throttle.pause(MODEL, 30)
    started = {}

    async def call(model: ModelName) -> None:
        async with throttle.slot(model, 0):
            started[model] = clock.time

    other = ModelName("p", "other")
    await clock.run(asyncio.create_task(call(MODEL)), asyncio.create_task(call(other)))
    assert started == {MODEL: 30.0, other: 0.0}
