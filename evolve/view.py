"""A run looked at: read-only, without its task, while it runs or afterwards. What notebooks and ``evolve show`` use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from evolve.database.records import RunRecord
from evolve.observer import Progress
from evolve.types import Program


class RunView:
    """Reads a run; never writes. Safe beside the process that writes it."""

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a run directory.

        Raises:
            UsageError: no run is there, or its database is of another version.
        """
        raise NotImplementedError

    @property
    def record(self) -> RunRecord:
        """Name, task, settings, status, heartbeat, as stored now."""
        raise NotImplementedError

    def programs(self) -> Any:
        """One row a program, by number: a pandas ``DataFrame`` where pandas is installed, else a list of dicts."""
        raise NotImplementedError

    def program(self, number: int) -> Program:
        """One program with everything known of it."""
        raise NotImplementedError

    def best(self) -> Program | None:
        """The best confirmed program."""
        raise NotImplementedError

    def lineage(self, number: int) -> list[Program]:
        """A program and its first parents, youngest first, down to the seed."""
        raise NotImplementedError

    def progress(self) -> Progress:
        """Counts, costs, caps and the best."""
        raise NotImplementedError

    def alive(self) -> bool:
        """``running``, and its heartbeat is younger than half a minute."""
        raise NotImplementedError
