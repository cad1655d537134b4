"""``tolerance.lock``: how large an error may be, per workload, input family and output, frozen before the first trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluators.compare import Limit
from evaluators.reference import Reference
from evaluators.task import Task

LOCK_NAME = "tolerance.lock"


@dataclass(frozen=True)
class ToleranceLock:
    """The frozen limits of a task and how they were measured."""

    reference_hash: str
    """Hash of reference, arguments and workloads that they were measured for."""
    limits: Mapping[str, Mapping[str, Mapping[str, Limit]]]
    """Workload's name -> input family -> output's name -> limit."""
    measured: Mapping[str, object]
    """c, floors, seeds, rows, variants, NumPy's version."""

    def of(self, workload: str, family: str) -> Mapping[str, Limit]:
        """Limits of every output for one workload and family."""
        return self.limits[workload][family]


def load_lock(task: Task) -> ToleranceLock:
    """Read the lock beside ``task.toml``.

    Raises:
        TaskError: missing, unreadable, or measured for another reference or other workloads.
    """
    ...


def measure_limits(reference: Reference, seeds: int = 100) -> ToleranceLock:
    """Measure the limits from the honest variants."""
    ...


def write_lock(lock: ToleranceLock, folder: Path) -> Path:
    """Write the lock beside ``task.toml``, atomically."""
    ...
