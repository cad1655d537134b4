"""The programs of a run, to be asked whether a new one is among them under other names or in another layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from evaluators.task import Language
from evolve.edits.cpp_tokens import cpp_outline
from evolve.edits.equivalence import equivalence_key


class KnownPrograms:
    """Numbers of programs by equivalence.

    Nearly all new programs differ from all known ones in more than names. That is found out by a cheaper comparison
    first, and the names are looked at only where it finds no difference.
    """

    def __init__(self) -> None:
        self._alike: dict[tuple[Language, str], list[tuple[int, str]]] = defaultdict(list)
        self._keys: dict[int, str] = {}
        self._numbers: set[int] = set()

    def add(self, number: int, source: str, language: Language) -> None:
        """Remember a program, once."""
        if number in self._numbers:
            return
        self._numbers.add(number)
        self._alike[language, _shape(source, language)].append((number, source))

    def find(self, source: str, language: Language) -> Iterator[int]:
        """The known programs that are equal up to layout, comments and local names, in the order in which they came."""
        alike = self._alike.get((language, _shape(source, language)), ())
        if any(known != source for _, known in alike):
            key = equivalence_key(source, language)
            yield from (number for number, known in alike if self._key(number, known, language) == key)
        else:  # The very text, if anything: it is its own, claimed before it was stored.
            yield from (number for number, _ in alike)

    def _key(self, number: int, source: str, language: Language) -> str:
        if number not in self._keys:
            self._keys[number] = equivalence_key(source, language)
        return self._keys[number]


@lru_cache(maxsize=256)
def _shape(source: str, language: Language) -> str:
    """Equal for all programs of one equivalence key, and cheap; other programs seldom share it.

    Remembered for a moment: a new program is looked for, claimed and stored in a row.
    """
    return cpp_outline(source) if language in {"cpp", "cuda"} else equivalence_key(source, language)
