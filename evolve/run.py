"""A run: its directory, database, random streams, budget and population; the ``ask``/``tell`` core of the search."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from evaluators.task import Task
from evolve.database.records import ModelCall
from evolve.observer import Progress
from evolve.settings import RunSettings
from evolve.types import Program, Proposal, ProposeContext, StopReason


class Run:
    """A run open for writing. Use as a context manager: leaving it closes the database and gives the lock back."""

    @classmethod
    def create(
        cls,
        directory: Path,
        task: Task,
        settings: RunSettings,
        *,
        url: str | None = None,
        config: str = "",
    ) -> Self:
        """Make ``directory`` (it must not exist or be empty) and a run in it; nothing is left behind on an error.

        Args:
            directory: Where ``run.db``, ``config.toml``, ``best.<ext>``, ``run.log`` and ``lock`` go.
            task: What to optimise.
            settings: The search's settings and caps; stored.
            url: SQLAlchemy URL of the database; ``None`` for SQLite in the directory.
            config: The resolved configuration as TOML, without secrets; stored and written to ``config.toml``.

        Raises:
            UsageError: the directory is not empty or cannot be written, or the database cannot be used.
        """
        raise NotImplementedError

    @classmethod
    def open(
        cls, directory: Path, task: Task, settings: RunSettings | None = None, *, config: str | None = None
    ) -> Self:
        """Open an existing run to go on with it, with other ``settings`` (for instance raised caps) where given.

        Raises:
            UsageError: there is no run, its task is another (hash), its database is of another version, or another
                process has it open.
        """
        raise NotImplementedError

    def ask(self) -> ProposeContext:
        """Choose island, parent and inspirations for the next program.

        Counts against the cap on candidates until :meth:`tell`. Check :meth:`stop_reason` first.

        Raises:
            EvolveError: the seed program has not been placed yet, or a cap is met.
        """
        raise NotImplementedError

    def tell(self, context: ProposeContext, proposal: Proposal | None) -> Program | None:
        """Store what was proposed: the program is ``queued`` for the judge, or is a duplicate.

        ``None`` (nothing to offer) gives the reservation back; its number stays unused.
        """
        raise NotImplementedError

    def stop_reason(self) -> StopReason | None:
        """Why no further proposal may be asked for; ``None`` while the search may go on."""
        raise NotImplementedError

    def record_model_call(self, call: ModelCall) -> int:
        """Store a model call and book its cost, before anything is done with its answer."""
        raise NotImplementedError

    def progress(self) -> Progress:
        """What a display shows, in constant time."""
        raise NotImplementedError

    def program(self, number: int) -> Program:
        """One program with everything known of it."""
        raise NotImplementedError

    def best(self) -> Program | None:
        """The best confirmed program."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the database and give the lock back."""
        raise NotImplementedError
