"""Whether a run holds a program that is equal up to layout, comments and local names."""

from __future__ import annotations

from evaluators.task import Language
from evolve.database.storage import Storage
from evolve.edits.known import KnownPrograms


class Equivalents:
    """Built when first asked, which costs one pass over the run's programs; most runs never ask."""

    def __init__(self, storage: Storage) -> None:
        """Of the run in ``storage``."""
        self._storage = storage
        self._known: KnownPrograms | None = None

    def find(self, source: str, language: Language) -> int | None:
        """The first such program's number."""
        if self._known is None:
            self._known = KnownPrograms()
            for number, text, written_in in self._storage.sources():
                self._known.add(number, text, written_in)
        return self._known.find(source, language)

    def add(self, number: int, source: str, language: Language) -> None:
        """A program was stored."""
        if self._known is not None:
            self._known.add(number, source, language)
