"""The seam between building and the languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # a builder's process need not load what only the judge needs
    from evaluators.task import Task

REPORT = "report.json"


class BuildRefused(Exception):
    """The compiler refused the source. Its words are in the log already."""


@dataclass(frozen=True)
class BuildTarget:
    """What to build for."""

    task: Task
    flags: tuple[str, ...]
    """Compiler flags, from the task and the candidate's own choice."""
    arch: str | None = None
    """A device's instruction set, for instance ``sm_90``; ``None``: this machine's processor."""
    listing: bool = False
    """Leave a disassembly with lines of the source besides, where the language has one: for a profile."""


class Builder(Protocol):
    """Builds one language."""

    source_name: str
    """What the source is called in the work folder."""
    artifact: str
    """The file or folder that a runner gets, in the work folder."""
    texts: tuple[str, ...]
    """Files for people to look at that ``build`` leaves in the work folder; may be missing."""
    report_texts: tuple[str, ...]
    """The same of ``report``."""
    runs_source: bool
    """Whether ``build`` runs the source: its report is then made by a process that never did."""
    takes_flags: bool
    """Whether compiler flags mean something."""
    packages: tuple[str, ...]
    """Python packages beside the standard library that ``build`` needs."""

    def order(self, target: BuildTarget) -> dict[str, Any]:
        """In the judge: what ``build`` must know, as JSON.

        Raises:
            UsageError: something this machine must have is missing.
        """
        ...

    def build(self, work: Path, order: Mapping[str, Any]) -> None:
        """In the sandbox: build ``work / source_name`` into ``work / artifact``.

        Raises:
            BuildRefused: the source is no good.
        """
        ...

    def report(self, work: Path, built: Path, order: Mapping[str, Any]) -> dict[str, float]:
        """In the sandbox: compiled facts of an artifact, which is data from an enemy; texts go to ``work``.

        Raises:
            BuildRefused: it is not what a build leaves.
        """
        ...
