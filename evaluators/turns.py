"""Whose turn it is among the threads of a judge that want the same thing: the device, or a builder's place."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from evaluators.device_account import DeviceNews, Watch, unwatched


class Turns:
    """So many at once, in the order in which they came; whoever is ``first`` comes before all who are not."""

    def __init__(self, places: int) -> None:
        """Nobody has a turn yet."""
        self._guard = threading.Lock()
        self._free = places
        self._waiting: tuple[deque[threading.Event], deque[threading.Event]] = (deque(), deque())

    @contextmanager
    def turn(self, watch: Watch = unwatched, *, first: bool = False) -> Iterator[None]:
        """Wait for a turn, and have it; ``watch`` is told while there is something to wait for."""
        come = self._come(first=first)
        if come is not None:
            try:
                watch(DeviceNews.QUEUES)
                come.wait()
                watch(DeviceNews.PROCEEDS)
            except BaseException:
                self._give_up(come)
                raise
        try:
            yield
        finally:
            with self._guard:
                self._pass_on()

    def _come(self, *, first: bool) -> threading.Event | None:
        """``None`` where it is one's turn at once; else what is set when it is."""
        with self._guard:
            if self._free:
                self._free -= 1
                return None
            come = threading.Event()
            self._waiting[0 if first else 1].append(come)
            return come

    def _pass_on(self) -> None:
        """A turn is over: the next one's begins, whoever comes meanwhile."""
        for waiting in self._waiting:
            if waiting:
                waiting.popleft().set()
                return
        self._free += 1

    def _give_up(self, come: threading.Event) -> None:
        with self._guard:
            if come.is_set():
                self._pass_on()
                return
            for waiting in self._waiting:
                if come in waiting:
                    waiting.remove(come)
