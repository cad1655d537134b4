"""What people and agents type, checked before any of it is stored: no key gets into a run's database."""

from __future__ import annotations

from evaluators.errors import UsageError
from evolve.bans import compile_ban
from evolve.database.codec import storable
from evolve.llm.secret import Redactor
from evolve.source_file import SOURCE_LIMIT_BYTES

NAME_LIMIT = 100
NOTE_LIMIT = 500


class Entrance:
    """Every free text from outside comes in by one of these methods.

    Keys are taken out of remarks. A source or pattern that holds one is refused: without it, it would be another.
    """

    def __init__(self, redactor: Redactor) -> None:
        """``redactor`` knows the keys."""
        self._redactor = redactor

    def remark(self, text: str) -> str:
        """A remark as it goes on record: one line, not too long, without keys."""
        line = " ".join(self._redactor.clean_remark(storable(text)).split())
        return line if len(line) <= NOTE_LIMIT else line[: NOTE_LIMIT - 1] + "…"

    def name(self, agent: str) -> str:
        """An agent's name as it goes on record.

        Raises:
            UsageError: it is empty or too long.
        """
        name = self.remark(agent)
        if not name or len(name) > NAME_LIMIT:
            raise UsageError(f"agent {name[:40]!r}: a name has 1 to {NAME_LIMIT} characters")
        return name

    def source(self, source: str) -> str:
        """A source as it is stored.

        Raises:
            UsageError: it is empty, larger than a program may be, or holds a key.
        """
        text = storable(source)
        size = len(text.encode())
        if not text.strip():
            raise UsageError("the source is empty")
        if size > SOURCE_LIMIT_BYTES:
            raise UsageError(f"the source has {size} bytes; a program may have {SOURCE_LIMIT_BYTES}")
        self._refuse_key(text, "the source")
        return text

    def pattern(self, pattern: str) -> str:
        """A ban's regular expression as it is stored; empty for none.

        Raises:
            UsageError: it is none, bans every program, or holds a key.
        """
        if pattern:
            self._refuse_key(pattern, "--pattern")
            compile_ban(pattern)
        return pattern

    def _refuse_key(self, text: str, what: str) -> None:
        variable = self._redactor.holder(text)
        if variable is not None:
            raise UsageError(f"{what} holds the key that {variable} holds: take it out, nothing was stored")
