"""When no proposer can be asked: rest until one may be, or pause the run until a person has acted."""

from __future__ import annotations

import time
from collections.abc import Callable

from evolve.errors import ProposerDownError

_SAME_S = 60.0


class Outage:
    """What is known of proposers that could not be reached."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """All can be reached."""
        self._clock = clock
        self._until = 0.0
        self._text = ""
        self._told: dict[str, float] = {}
        self.paused: str | None = None
        """Why resting does not help; the run ends once what is in flight has ended."""

    def meet(self, error: ProposerDownError) -> bool:
        """Nobody could be asked; returns whether that is news."""
        news, self._text = str(error) != self._text, str(error)
        if error.retry_in_s is None:
            self.paused = str(error)
        else:
            self._until = max(self._until, self._clock() + error.retry_in_s)
        return news

    def over(self) -> None:
        """Somebody proposed again."""
        self._text = ""

    def told(self, text: str) -> bool:
        """Whether people were told this within the last minute; from now on they are."""
        now = self._clock()
        recent = text in self._told and self._told[text] > now - _SAME_S
        if not recent:
            self._told = {known: at for known, at in self._told.items() if at > now - _SAME_S} | {text: now}
        return recent

    def rest_s(self) -> float | None:
        """Seconds before anybody is to be asked again; ``None`` where that is now, or where the run is to pause."""
        left = self._until - self._clock()
        return left if left > 0 and self.paused is None else None
