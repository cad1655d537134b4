"""Who has a program that is equal up to layout, comments and local names: one of a run, or one on its way there."""

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

    def claim(self, number: int, source: str, language: Language) -> int | None:
        """Give a source to ``number``, which is about to be stored; or say which number has such a one already.

        A claim lives as long as the process. What a crash kept from being stored is claimed again when it is led again.
        """
        if self._known is None:
            self._known = KnownPrograms()
            for stored, text, written_in in self._storage.sources():
                self._known.add(stored, text, written_in)
        known = self._known.find(source, language)
        if known is None:
            self._known.add(number, source, language)
        return known

    def add(self, number: int, source: str, language: Language) -> None:
        """A program was stored."""
        if self._known is not None:
            self._known.add(number, source, language)
