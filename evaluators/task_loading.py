"""Finding and reading tasks: ``task.toml`` to :class:`~evaluators.task.Task`, every mistake one line."""

from __future__ import annotations

from pathlib import Path

from evaluators.task import Task


def shipped_folder(kind: str) -> Path:
    """Where ``tasks`` or ``prompts`` lie: package data of the wheel, or the repository's folder of that name."""
    ...


def find_task(name_or_path: str) -> Path:
    """A task's folder by shipped name, by folder, or by another package's entry point (group ``evolve.tasks``).

    Raises:
        TaskError: there is none.
    """
    ...


def load_task(folder: Path) -> Task:
    """Read and check a task folder.

    Raises:
        TaskError: one line that names the file, the key and what to do.
    """
    ...
