"""Time as the clients see it, so that tests can let it run faster."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Clock(Protocol):
    """Seconds that pass, and ways to wait for them."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """A context that raises :class:`TimeoutError` when it takes longer."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> float:
        """See :class:`Clock`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See :class:`Clock`."""
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """See :class:`Clock`."""
        return asyncio.timeout(seconds)
