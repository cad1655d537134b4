"""What goes between a run and the agents outside: leases on one side, answers on the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from evaluators.task import Language


@dataclass(frozen=True)
class NewLease:
    """What an agent is about to be given to work on."""

    agent: str
    island: int
    parent: int
    inspirations: tuple[int, ...]
    lease_s: float
    """How long the run counts on an answer."""


@dataclass(frozen=True)
class Lease:
    """What an agent was given to work on. Nobody else is kept from the same parent."""

    id: int
    agent: str
    island: int
    parent: int
    inspirations: tuple[int, ...]
    asked_at: float
    expires_at: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Lease:
        """From its row."""
        names = ("id", "agent", "island", "parent", "asked_at", "expires_at")
        return cls(inspirations=tuple(json.loads(row["inspirations"])), **{name: row[name] for name in names})


@dataclass(frozen=True)
class NewAnswer:
    """A source that somebody hands in: on a lease, or of their own accord."""

    agent: str
    operator: str
    language: Language
    source: str
    note: str = ""
    lease: Lease | None = None
    parents: tuple[int, ...] = ()
    """Where there is no lease to say so."""


@dataclass(frozen=True)
class Answer:
    """A source that was handed in. The search makes a program of it, once."""

    id: int
    lease: int | None
    agent: str
    operator: str
    language: Language
    source: str
    note: str
    island: int | None
    """``None``: the search chooses."""
    parents: tuple[int, ...]
    inspirations: tuple[int, ...]
    late_s: float | None
    """By how much its lease had expired; ``None`` where it had not."""
    told_at: float
    program: int | None
    """The program it became; ``None`` while it waits."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Answer:
        """From its row, with the source's text."""
        names = ("id", "lease", "agent", "operator", "source", "note", "island", "late_s", "told_at", "program")
        return cls(
            language=cast(Language, row["language"]),
            parents=tuple(json.loads(row["parents"])),
            inspirations=tuple(json.loads(row["inspirations"])),
            **{name: row[name] for name in names},
        )


@dataclass(frozen=True)
class MailCount:
    """How much was ever sent: another count means news. Counts only grow."""

    answers: int = 0
    orders: int = 0
