"""Who has a judge's device, and who waits for it: told by the judge as it happens, kept by the search.

So the search knows it at any time: while a judge gets ready, and when it has died.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

KEPT_WAITS = 1000
"""How many waits for other judges are remembered."""


class DeviceNews(StrEnum):
    """What a judge tells of one of its questions; of number 0, getting ready, too."""

    HELD_UP = "held_up"
    """Another judge of this machine has the device: it waits."""
    GOES_ON = "goes_on"
    """It waits no longer."""
    QUEUES = "queues"
    """Other questions to the same judge have the device, or all places of builders: it waits for its turn."""
    PROCEEDS = "proceeds"
    """It is its turn."""
    HAS_DEVICE = "has_device"
    """From here on the device's time is this question's."""
    GIVES_BACK = "gives_back"


Span = tuple[float, float]
"""From when to when, seconds of the account's clock."""
Watch = Callable[[DeviceNews], None]
"""Told in the thread that works on the question."""


def unwatched(news: DeviceNews) -> None:
    """Where nobody wants to know."""


@contextmanager
def in_use(watch: Watch) -> Iterator[None]:
    """Tell that the device's time is a question's."""
    watch(DeviceNews.HAS_DEVICE)
    try:
        yield
    finally:
        watch(DeviceNews.GIVES_BACK)


class DeviceAccount:
    """What one judge has told so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is told yet; ``clock`` gives monotonic seconds."""
        self._clock = clock
        self._had: dict[int, float] = {}
        self._since: dict[int, float] = {}
        self._queued: dict[int, list[Span]] = {}
        self._queues_since: dict[int, float] = {}
        self._waits: deque[Span] = deque(maxlen=KEPT_WAITS)
        self._waiting_since: float | None = None

    def open(self, question: int) -> None:
        """Keep account of a question from here on, until it is forgotten; of others nothing is kept."""
        self._had[question] = 0.0
        self._queued[question] = []

    def note(self, question: int, news: DeviceNews) -> None:
        """The judge told this of a question, now."""
        now = self._clock()
        if news is DeviceNews.HELD_UP:
            self._waiting_since = now
        elif news is DeviceNews.HAS_DEVICE and question in self._had:
            self._since[question] = now
        elif news is DeviceNews.GIVES_BACK and question in self._since:
            self._had[question] += now - self._since.pop(question)
        elif news is DeviceNews.QUEUES and question in self._queued:
            self._queues_since[question] = now
        elif news is DeviceNews.PROCEEDS and question in self._queues_since:
            self._queued[question].append((self._queues_since.pop(question), now))
        elif news is DeviceNews.GOES_ON and self._waiting_since is not None:
            self._waits.append((self._waiting_since, now))
            self._waiting_since = None

    def device_s(self, question: int) -> float:
        """Seconds of the device that a question has had up to now."""
        now = self._clock()
        return self._had.get(question, 0.0) + now - self._since.get(question, now)

    def forget(self, question: int) -> None:
        """A question is answered, or nobody wants to know any more."""
        self._had.pop(question, None)
        self._since.pop(question, None)
        self._queued.pop(question, None)
        self._queues_since.pop(question, None)

    def held_up_s(self, last_s: float) -> float:
        """Of the last so many seconds, how many the judge waited for another one that had the device."""
        now = self._clock()
        return sum(_common_s(wait, (now - last_s, now)) for wait in self._held_up(now))

    def queued_s(self, question: int, last_s: float) -> float:
        """Of the last so many seconds, how many a question waited for others to the same judge.

        Less what :meth:`held_up_s` counts: in their sum no second counts twice.
        """
        now = self._clock()
        since = self._queues_since.get(question)
        waits = [*self._queued.get(question, ()), *([] if since is None else [(since, now)])]
        held_up, total = self._held_up(now), 0.0
        for start, end in waits:
            span = (max(start, now - last_s), end)
            total += _common_s(span, (now - last_s, now)) - sum(_common_s(span, other) for other in held_up)
        return total

    def _held_up(self, now: float) -> list[Span]:
        return [*self._waits, *([] if self._waiting_since is None else [(self._waiting_since, now)])]


def _common_s(one: Span, other: Span) -> float:
    return max(min(one[1], other[1]) - max(one[0], other[0]), 0.0)
