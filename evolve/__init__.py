"""The search: evolves kernels with language models and other proposers, around the judge in :mod:`evaluators`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evaluators.errors import UsageError

if TYPE_CHECKING:
    from evolve.view import RunView

__all__ = ["UsageError", "open_run"]


def open_run(path: str | Path) -> RunView:
    """Open a run directory to look at it: ``open_run("runs/…").programs()``, ``.best()``. Read-only.

    Raises:
        UsageError: no run is there, or its database is of another version.
    """
    from evolve.view import RunView  # noqa: PLC0415 - keeps `import evolve` fast

    return RunView.open(path)
