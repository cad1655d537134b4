"""Exceptions of the search. The user's own mistakes are an :class:`evaluators.errors.UsageError`: one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evaluators.errors import JudgeError, UsageError

if TYPE_CHECKING:
    from evolve.types import StopReason


class EvolveError(Exception):
    """Base of every error this package raises on purpose, but for the user's mistakes."""


class StorageError(EvolveError):
    """A write that the storage contract forbids: our fault, nothing was written."""


class DatabaseVersionError(UsageError):
    """A database of another version: newer than this program, or not upgraded yet. Nothing was written."""


class DatabaseFailedError(UsageError):
    """The database could not be read or written: full, locked, damaged, gone. What was committed before is kept."""


class RunLockedError(UsageError):
    """Another process has this run open for writing."""


class BudgetRefusedError(EvolveError):
    """A piece of work was not started, or was broken off, because of a cap."""

    def __init__(self, reason: StopReason) -> None:
        """``reason`` is the cap."""
        super().__init__(f"the cap on {reason.value} leaves no room")
        self.reason = reason


class UnquietError(EvolveError):
    """Noise spoilt a measurement that may be made again: it is booked, and nothing else of it is stored."""


class JudgeUnavailableError(JudgeError):
    """The judge could not be started anew: the run cannot go on."""


class ProposerDownError(EvolveError):
    """A proposer that works by way of others cannot reach them: others may propose meanwhile."""

    def __init__(self, text: str, retry_in_s: float | None) -> None:
        """``retry_in_s``: when it may be asked again; ``None`` when a person has to act first."""
        super().__init__(text)
        self.retry_in_s = retry_in_s
