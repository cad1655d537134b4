"""Exceptions of the search. The user's own mistakes are an :class:`evaluators.errors.UsageError`: one line."""

from evaluators.errors import UsageError


class EvolveError(Exception):
    """Base of every error this package raises on purpose, but for the user's mistakes."""


class StorageError(EvolveError):
    """A write that the storage contract forbids: our fault, nothing was written."""


class DatabaseVersionError(UsageError):
    """A database of another version: newer than this program, or not upgraded yet. Nothing was written."""


class RunLockedError(UsageError):
    """Another process has this run open for writing."""
