"""How long a run waits for its models while none of them can be asked."""

from __future__ import annotations

from evolve.llm.clock import Clock
from evolve.llm.errors import AllModelsDownError


class Waiting:
    """Counts from when nobody could be asked until one of them works again."""

    def __init__(self, clock: Clock, most_s: float) -> None:
        """Wait ``most_s`` in all, then no more."""
        self._clock = clock
        self._most_s = most_s
        self._since: float | None = None

    def over(self) -> None:
        """A model works again."""
        self._since = None

    def rest_s(self, error: AllModelsDownError) -> float | None:
        """How long to rest before asking again; ``None`` where the wait is over, or there is no use in it."""
        now = self._clock.now()
        self._since = now if self._since is None else self._since
        left = self._most_s - (now - self._since)
        if error.retry_in_s is None or left <= 0 or (error.asked and error.retry_in_s > left):
            return None
        return min(error.retry_in_s, left)
