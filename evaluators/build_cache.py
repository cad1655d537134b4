"""What was built, by key: so much of it as was used last, and no more, however long a judge lives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from evaluators.failure import CandidateFailure

if TYPE_CHECKING:
    from evaluators.build import BuiltProgram

MOST_BUILDS = 512
"""Far more than are in anybody's hands at once: a program's artifact must outlive its evaluation or duel."""


class BuildCache:
    """Remembers builds and refusals. Safe to use from several threads."""

    def __init__(self, most: int | None = None) -> None:
        """Keep the ``most`` used last; ``None``: :data:`MOST_BUILDS`."""
        self._most = MOST_BUILDS if most is None else most
        self._done: OrderedDict[str, BuiltProgram | CandidateFailure] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> BuiltProgram | CandidateFailure | None:
        """What is remembered."""
        with self._lock:
            found = self._done.get(key)
            if found is not None:
                self._done.move_to_end(key)
            return found

    def forget(self, key: str) -> None:
        """Leave what was built to others."""
        with self._lock:
            self._done.pop(key, None)

    def put(self, key: str, outcome: BuiltProgram | CandidateFailure) -> list[BuiltProgram]:
        """Remember; returns what is forgotten for it, whose artifacts nobody will ask for again."""
        with self._lock:
            self._done[key] = outcome
            self._done.move_to_end(key)
            over = [self._done.popitem(last=False)[1] for _ in range(len(self._done) - self._most)]
        return [gone for gone in over if not isinstance(gone, CandidateFailure)]
