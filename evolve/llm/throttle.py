"""Keeping within what a provider allows: calls at once, requests and tokens a minute, and pauses it asks for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from evolve.llm.clock import Clock
from evolve.llm.errors import Failure
from evolve.llm.settings import ModelName, ProviderSettings

_MINUTE_S = 60.0
_BURSTS_A_MINUTE = 10
"""A tenth of a minute's allowance may go at once: a whole one would double the first minute."""
LONGEST_PAUSE_S = 86_400.0
"""No provider counts over more than a day; a server that asks for more has miscounted."""


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


@dataclass(frozen=True)
class Pause:
    """A time in which a server wants no request for a model."""

    until: float
    """On the clock."""
    failure: Failure
    """What it said."""


class Held(Exception):
    """The pause is longer than the call can wait; nothing was sent."""

    def __init__(self, failure: Failure) -> None:
        """``failure`` is what the server said, with the seconds that are left."""
        super().__init__(str(failure))
        self.failure = failure


@dataclass(frozen=True)
class Patience:
    """How long a call may wait for the end of a pause."""

    most_s: float
    """A longer pause is not waited out."""
    until: float
    """On the clock: nor is one that ends later."""


_ENDLESS = Patience(math.inf, math.inf)


class Throttle:
    """One provider's. A slot is held only while a request is on the wire, never while waiting to try again."""

    def __init__(self, settings: ProviderSettings, clock: Clock) -> None:
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._requests = _Rate(settings.requests_per_minute, clock)
        self._tokens = _Rate(settings.tokens_per_minute, clock)
        self._clock = clock
        self._pauses: dict[ModelName, Pause] = {}

    def pause(self, model: ModelName, failure: Failure) -> None:
        """Send nothing to this model for a while: what the server asked one call to wait, all should."""
        until = self._clock.now() + min(failure.retry_after_s or 0.0, LONGEST_PAUSE_S)
        if model not in self._pauses or until > self._pauses[model].until:
            self._pauses[model] = Pause(until, failure)

    def pauses(self) -> Mapping[ModelName, Pause]:
        """Those that are not over."""
        now = self._clock.now()
        return {model: pause for model, pause in self._pauses.items() if pause.until > now}

    def correct(self, taken: int, used: int) -> None:
        """Put right what :meth:`slot` took in advance, once the tokens have been counted."""
        self._tokens.take(used - taken)

    @asynccontextmanager
    async def slot(self, model: ModelName, tokens: int, patience: Patience = _ENDLESS) -> AsyncIterator[None]:
        """Wait for one's turn, then hold a place among the calls in flight.

        The tokens are taken in any case; :meth:`correct` gives back what was not used.

        Raises:
            Held: the model's pause is longer than ``patience``.
        """
        wait = max(self._requests.take(1), self._tokens.take(tokens))
        try:
            self._refuse_long_pause(model, patience)
            if wait > 0:
                await self._clock.sleep(wait)
            while True:
                await self._wait_for_pause(model, patience)
                async with self._slots:
                    if self._remaining(model) > 0:
                        continue
                    yield
                    return
        except Held:
            self._requests.take(-1)
            raise

    async def _wait_for_pause(self, model: ModelName, patience: Patience) -> None:
        while (remaining := self._remaining(model)) > 0:
            self._refuse_long_pause(model, patience)
            await self._clock.sleep(remaining)

    def _refuse_long_pause(self, model: ModelName, patience: Patience) -> None:
        remaining = self._remaining(model)
        if remaining > 0 and (remaining > patience.most_s or self._clock.now() + remaining > patience.until):
            raise Held(replace(self._pauses[model].failure, retry_after_s=remaining))

    def _remaining(self, model: ModelName) -> float:
        pause = self._pauses.get(model)
        return 0.0 if pause is None else pause.until - self._clock.now()
