"""Approaches a person has banned, as patterns that a program's source may not match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from evaluators.errors import UsageError
from evolve.database.steering import SteerRecord
from evolve.types import Program


def compile_ban(pattern: str) -> re.Pattern[str]:
    """A ban's regular expression: searched for in the whole source, ``^`` and ``$`` match at every line.

    Raises:
        UsageError: it is none, or matches the empty text, and so every program.
    """
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise UsageError(f"--pattern {pattern!r}: not a regular expression: {error}") from None
    if compiled.search(""):
        raise UsageError(f"--pattern {pattern!r}: matches the empty text, so it would ban every program")
    return compiled


class Bans:
    """The patterns of a run's bans; a ban without one is only said in prompts."""

    def __init__(self, bans: Iterable[SteerRecord] = ()) -> None:
        """Watch for these."""
        self._patterns = [(ban, compile_ban(ban.argument)) for ban in bans if ban.argument]

    def objection(self, source: str) -> str | None:
        """What is banned about a source, in one line; ``None`` where nothing is."""
        for ban, pattern in self._patterns:
            found = pattern.search(source)
            if found:
                line = source.count("\n", 0, found.start()) + 1
                return f"banned: {ban.text} (order {ban.id}: line {line} matches {ban.argument!r})"
        return None

    def among(self, numbers: Iterable[int], program: Callable[[int], Program]) -> frozenset[int]:
        """Those of some programs whose sources are banned."""
        if not self._patterns:
            return frozenset()
        return frozenset(number for number in numbers if self.objection(program(number).source))
