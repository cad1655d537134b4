"""Time as the clients see it, so that tests can let it run faster."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that pass, and ways to wait for them."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def timeout(self, seconds: float) -> asyncio.Timeout:
        """A context that raises :class:`TimeoutError` when it takes longer."""
        ...

    def postpone(self, timeout: asyncio.Timeout, seconds: float) -> None:
        """Give a running timeout so long from now."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> float:
        """See :class:`Clock`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See :class:`Clock`."""
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> asyncio.Timeout:
        """See :class:`Clock`."""
        return asyncio.timeout(seconds)

    def postpone(self, timeout: asyncio.Timeout, seconds: float) -> None:
        """See :class:`Clock`."""
        timeout.reschedule(asyncio.get_running_loop().time() + seconds)
