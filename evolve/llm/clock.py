"""Time as the clients see it, so that tests can let it run faster."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Protocol, Self

LAST_LOOK_S = 0.1
"""What was sent before a deadline may lie unread when it comes: for so long it is read before anything ends."""


class Deadline:
    """Raises :class:`TimeoutError` when what is inside takes too long; use as an asynchronous context manager.

    More than :func:`asyncio.timeout`: time in which this process did not listen is nobody's silence. A deadline that
    comes while the loop stands still, in a write to the database for instance, is put off by as long as it was held up,
    and any by :data:`LAST_LOOK_S`: what was sent meanwhile lies unread.
    """

    def __init__(self, seconds: float) -> None:
        """Counts from when it is entered."""
        self._seconds = seconds
        self._limit = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self.postpone(self._seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancel()
        await self._limit.__aexit__(kind, error, trace)

    def postpone(self, seconds: float) -> None:
        """So long from now, also if it came at this instant and has ended nothing yet."""
        self._cancel()
        if not self._limit.expired():
            self._limit.reschedule(None)
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        self._timer = loop.call_at(due, self._come, due)

    def _come(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(loop.time() - due, LAST_LOOK_S), self._expire)

    def _expire(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time())

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Clock(Protocol):
    """Seconds that pass, and ways to wait for them."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def timeout(self, seconds: float) -> Deadline:
        """A context that raises :class:`TimeoutError` when it takes longer."""
        ...

    def postpone(self, deadline: Deadline, seconds: float) -> None:
        """Give a running deadline so long from now."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> float:
        """See :class:`Clock`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See :class:`Clock`."""
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> Deadline:
        """See :class:`Clock`."""
        return Deadline(seconds)

    def postpone(self, deadline: Deadline, seconds: float) -> None:
        """See :class:`Clock`."""
        deadline.postpone(seconds)
