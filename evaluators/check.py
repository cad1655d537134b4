"""Vetting a task: wrong answers must fail, honest ones must pass, outputs must depend on inputs (``evolve check``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators.task import Task


@dataclass(frozen=True)
class CheckRow:
    """One thing that was checked: a line of the table that ``evolve check`` prints."""

    subject: str
    """For instance ``mutant zeros``, ``variant sequential``, ``baseline plain``."""
    workload: str
    family: str
    outcome: str
    """What happened, in a few words: ``caught by max limit: 812 ulp > 1.6``."""


@dataclass(frozen=True)
class CheckReport:
    """What ``evolve check`` found; a task that is no good raises instead."""

    task: Task
    """The task as it now is: its hash covers the lock."""
    rows: tuple[CheckRow, ...]
    lock: Path | None
    """Where the limits are; ``None`` for a task with its own evaluator and no reference."""
    frozen: bool
    """True where this check wrote the lock."""


ProgramCheck = Callable[[Task], Sequence[CheckRow]]
"""Judges baselines and seed program of a task; raises ``TaskError`` where one does not pass."""


def check_task(task: Task, *, freeze: bool = False, programs: ProgramCheck | None = None) -> CheckReport:
    """Vet a task, and freeze its limits where there are none or where ``freeze`` asks for it.

    Raises:
        TaskError: a mutant was let through, an honest variant fails, or outputs do not vary. Nothing is written then.
    """
    ...
