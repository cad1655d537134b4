"""Keeping within what a provider allows: calls at once, requests and tokens a minute, and pauses it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evolve.llm.clock import Clock
from evolve.llm.settings import ModelName, ProviderSettings

_MINUTE_S = 60.0
_BURSTS_A_MINUTE = 10
"""A tenth of a minute's allowance may go at once: a whole one would double the first minute."""


class _Rate:
    """A token bucket that lends: whoever finds it empty takes all the same, and waits until the debt is paid."""

    def __init__(self, per_minute: float | None, clock: Clock) -> None:
        self._per_s = None if per_minute is None else per_minute / _MINUTE_S
        self._most = 0.0 if per_minute is None else max(1.0, per_minute / _BURSTS_A_MINUTE)
        self._clock = clock
        self._level = self._most
        self._at = clock.now()

    def take(self, amount: float) -> float:
        """Take (or, below zero, give back), and learn how many seconds to wait before using it."""
        if self._per_s is None:
            return 0.0
        now = self._clock.now()
        self._level = min(self._most, self._level + (now - self._at) * self._per_s) - amount
        self._at = now
        return max(0.0, -self._level / self._per_s)


class Throttle:
    """One provider's. A slot is held only while a request is on the wire, never while waiting to try again."""

    def __init__(self, settings: ProviderSettings, clock: Clock) -> None:
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._requests = _Rate(settings.requests_per_minute, clock)
        self._tokens = _Rate(settings.tokens_per_minute, clock)
        self._clock = clock
        self._closed_until: dict[ModelName, float] = {}

    def pause(self, model: ModelName, seconds: float) -> None:
        """Send nothing to this model for a while: what the server asked one call to wait, all should."""
        until = self._clock.now() + seconds
        self._closed_until[model] = max(until, self._closed_until.get(model, until))

    def correct(self, taken: int, used: int) -> None:
        """Put right what :meth:`slot` took in advance, once the tokens have been counted."""
        self._tokens.take(used - taken)

    @asynccontextmanager
    async def slot(self, model: ModelName, tokens: int) -> AsyncIterator[None]:
        """Wait for one's turn, then hold a place among the calls in flight."""
        wait = max(self._requests.take(1), self._tokens.take(tokens))
        if wait > 0:
            await self._clock.sleep(wait)
        while True:
            await self._wait_for_pause(model)
            async with self._slots:
                if self._remaining(model) > 0:
                    continue
                yield
                return

    async def _wait_for_pause(self, model: ModelName) -> None:
        while (remaining := self._remaining(model)) > 0:
            await self._clock.sleep(remaining)

    def _remaining(self, model: ModelName) -> float:
        return self._closed_until.get(model, 0.0) - self._clock.now()
