"""A clock that runs faster than the wall's."""

from __future__ import annotations

import asyncio
import time

from evolve.llm.clock import Deadline


class FastClock:
    """An :class:`evolve.llm.clock.Clock` on which ``factor`` seconds pass in each second of the wall's."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self.slept: list[float] = []
        """Every wait that was asked for, in this clock's seconds."""

    def now(self) -> float:
        """Seconds on this clock."""
        return time.monotonic() * self._factor

    async def sleep(self, seconds: float) -> None:
        """Wait for as many of this clock's seconds."""
        self.slept.append(seconds)
        await asyncio.sleep(seconds / self._factor)

    def timeout(self, seconds: float) -> Deadline:
        """A deadline in this clock's seconds."""
        return Deadline(seconds / self._factor)

    def postpone(self, deadline: Deadline, seconds: float) -> None:
        """So many of this clock's seconds from now."""
        deadline.postpone(seconds / self._factor)
