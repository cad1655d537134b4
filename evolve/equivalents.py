"""Who has a program that is equal up to layout, comments and local names: one of a run, or one on its way there."""

from __future__ import annotations

from evaluators.task import Language
from evolve.database.storage import Storage
from evolve.edits.known import KnownPrograms


class Equivalents:
    """Built when first asked, which costs one pass over the run's programs; runs of the tuner alone never ask."""

    def __init__(self, storage: Storage) -> None:
        """Of the run in ``storage``."""
        self._storage = storage
        self._known: KnownPrograms | None = None
        self._stored: set[int] = set()

    def claim(self, number: int, source: str, language: Language) -> int | None:
        """Give a source to ``number``, which is about to be stored; or say which number has such a one already.

        Nobody waits for a claim, however long the other takes to be stored or judged: whoever comes second is told at
        once. A claim lives as long as the process. What a crash kept from being stored is claimed again when it is led
        again.
        """
        known = next(self._read().find(source, language), None)
        if known is None:
            self._read().add(number, source, language)
        return known

    def stored(self, source: str, language: Language) -> int | None:
        """The program of the run that is judged in place of this source; what is only claimed is not there yet."""
        return next((number for number in self._read().find(source, language) if number in self._stored), None)

    def add(self, number: int, source: str, language: Language) -> None:
        """A program was stored that is no duplicate."""
        if self._known is not None:
            self._known.add(number, source, language)
            self._stored.add(number)

    def _read(self) -> KnownPrograms:
        if self._known is None:
            self._known = KnownPrograms()
            for number, source, language in self._storage.sources():
                self.add(number, source, language)
        return self._known
