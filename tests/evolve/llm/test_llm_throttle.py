"""A provider's limits hold with many calls waiting."""

from __future__ import annotations

import asyncio

import pytest

from evolve.llm.errors import Failure, FailureKind, Scope
from evolve.llm.settings import ModelName, ProviderSettings
from evolve.llm.throttle import Held, Patience, Throttle

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


def _asking(seconds: float) -> Failure:
    return Failure(FailureKind.RATE_LIMITED, Scope.RETRY, "slow down", 429, seconds)


async def test_a_pause_holds_every_call_to_the_model_and_no_other():
    clock = Simulation()
    throttle = Throttle(ProviderSettings(), clock)
    throttle.pause(MODEL, _asking(30))
    started = {}

    async def call(model: ModelName) -> None:
        async with throttle.slot(model, 0):
            started[model] = clock.time

    other = ModelName("p", "other")
    await clock.run(asyncio.create_task(call(MODEL)), asyncio.create_task(call(other)))
    assert started == {MODEL: 30.0, other: 0.0}


@pytest.mark.parametrize("patience", [Patience(most_s=60, until=1e9), Patience(most_s=1e9, until=60)])
async def test_a_pause_that_is_longer_than_a_call_can_wait_fails_it_at_once_with_what_the_server_said(patience):
    clock = Simulation()
    throttle = Throttle(ProviderSettings(requests_per_minute=10), clock)
    throttle.pause(MODEL, _asking(86_400))
    for _ in range(20):
        with pytest.raises(Held, match="429") as caught:
            async with throttle.slot(MODEL, 0, patience):
                pass
    assert caught.value.failure.retry_after_s == 86_400
    assert clock.time == 0.0
    async with throttle.slot(ModelName("p", "other"), 0):
        assert clock.time == 0.0, "what was not sent counts against no limit"


async def test_a_pause_that_grows_while_a_call_waits_fails_it_too():
    clock = Simulation()
    throttle = Throttle(ProviderSettings(), clock)
    throttle.pause(MODEL, _asking(30))

    async def call() -> None:
        async with throttle.slot(MODEL, 0, Patience(most_s=60, until=1e9)):
            raise AssertionError("it was let through")

    waiting = asyncio.create_task(call())
    await asyncio.sleep(0)
    throttle.pause(MODEL, _asking(5000))
    await clock.run(waiting)
    assert isinstance(waiting.exception(), Held)
    assert clock.time == 30


async def test_no_server_closes_a_model_for_more_than_a_day():
    clock = Simulation()
    throttle = Throttle(ProviderSettings(), clock)
    throttle.pause(MODEL, _asking(1e300))
    assert throttle.pauses()[MODEL].until == 86_400
    clock.time = 86_401
    assert throttle.pauses() == {}
