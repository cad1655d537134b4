"""Proposals that a crash or a stop broke off: they are asked for again, under the same number, before new ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from evolve.database.model_records import Dialogue
from evolve.database.storage import Storage


class BrokenOff:
    """The dialogues to go on with."""

    def __init__(self, storage: Storage) -> None:
        """Nothing is taken up yet."""
        self._storage = storage
        self._waiting: deque[Dialogue] = deque()
        self._taken: dict[int, Dialogue] = {}

    def take_up(self, proposers: Collection[str]) -> None:
        """Queue the open dialogues of these proposers; those of others stay as they are."""
        self._waiting = deque(d for d in self._storage.open_dialogues() if d.proposer in proposers)

    @property
    def first(self) -> Dialogue | None:
        """The next one to go on with; it waits until it is taken."""
        return self._waiting[0] if self._waiting else None

    def take(self) -> None:
        """The first one is gone on with."""
        dialogue = self._waiting.popleft()
        self._taken[dialogue.number] = dialogue

    def put_back(self, number: int) -> None:
        """It could not be gone on with now."""
        if number in self._taken:
            self._waiting.append(self._taken.pop(number))
