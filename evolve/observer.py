"""Hooks around the search, for displays and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evolve.budget import Spent
from evolve.settings import Caps
from evolve.types import Program, RunStatus


@dataclass(frozen=True)
class Progress:
    """One instant of a run, cheap to make: what a display shows."""

    status: RunStatus
    programs: int
    """Stored so far, duplicates included."""
    finished: int
    duplicates: int
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """:class:`~evaluators.evaluation.Status` value -> finished programs with that verdict, duplicates not counted."""
    proposing: int = 0
    waiting: int = 0
    judging: int = 0
    placing: int = 0
    leases: int = 0
    """Agents that were given work and have not answered."""
    spent: Spent = field(default_factory=Spent)
    caps: Caps = field(default_factory=Caps)
    best: Program | None = None
    """The best confirmed program."""
    contender: Program | None = None
    """A program that looks better than ``best`` and is being confirmed: show it as unconfirmed."""


class Observer(Protocol):
    """Called in the loop's thread, after the commit: return quickly. Derive from :class:`Silent` to pick some."""

    def on_status(self, status: RunStatus, reason: str) -> None:
        """The run started, ended, or was interrupted."""

    def on_queued(self, program: Program) -> None:
        """A new program waits for the judge."""

    def on_program(self, program: Program) -> None:
        """A program is finished: judged and placed, or a duplicate."""

    def on_contender(self, program: Program) -> None:
        """A program looks like a new best; its confirmation begins."""

    def on_best(self, program: Program) -> None:
        """A confirmed new best."""

    def on_progress(self, progress: Progress) -> None:
        """About once a second, and after every finished program."""

    def on_note(self, kind: str, text: str) -> None:
        """One line about something unusual: ``judge``, ``migration``, ``reset``, ``proposer``."""


class Silent:
    """An observer that does nothing."""

    def on_status(self, status: RunStatus, reason: str) -> None:
        """See :class:`Observer`."""

    def on_queued(self, program: Program) -> None:
        """See :class:`Observer`."""

    def on_program(self, program: Program) -> None:
        """See :class:`Observer`."""

    def on_contender(self, program: Program) -> None:
        """See :class:`Observer`."""

    def on_best(self, program: Program) -> None:
        """See :class:`Observer`."""

    def on_progress(self, progress: Progress) -> None:
        """See :class:`Observer`."""

    def on_note(self, kind: str, text: str) -> None:
        """See :class:`Observer`."""


class Observers:
    """Several observers as one, told in order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Tell these."""
        self._observers = tuple(observers)

    def on_status(self, status: RunStatus, reason: str) -> None:
        """See :class:`Observer`."""
        for observer in self._observers:
            observer.on_status(status, reason)

    def on_queued(self, program: Program) -> None:
        """See :class:`Observer`."""
        for observer in self._observers:
            observer.on_queued(program)

    def on_program(self, program: Program) -> None:
        """See :class:`Observer`."""
        for observer in self._observers:
            observer.on_program(program)

    def on_contender(self, program: Program) -> None:
        """See :class:`Observer`."""
        for observer in self._observers:
            observer.on_contender(program)

    def on_best(self, program: Program) -> None:
        """See :class:`Observer`."""
        for observer in self._observers:
            observer.on_best(program)

    def on_progress(self, progress: Progress) -> None:
        """See :class:`Observer`."""
        for observer in self._observers:
            observer.on_progress(progress)

    def on_note(self, kind: str, text: str) -> None:
        """See :class:`Observer`."""
        for observer in self._observers:
            observer.on_note(kind, text)
