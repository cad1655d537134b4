"""A task's trusted ``reference.py``: generator, float64 oracle, honest variants. Loaded in the judge only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np

from evaluators.dtypes import Array
from evaluators.task import Task, Workload

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Reference:
    """The functions of ``reference.py``; what they return is checked for names, shapes and dtypes on every call."""

    task: Task
    module: ModuleType = field(repr=False)
    families: tuple[str, ...]
    """Input families; the first is the ordinary one, which timed rounds use."""
    row_axis: str | None
    """An axis along which output rows do not depend on each other, so that limits may be measured on fewer rows."""

    def generate(self, workload: Workload, family: str, rng: np.random.Generator) -> Arrays:
        """Fresh content for every ``in`` and ``inout`` argument, C-contiguous, in storage dtypes."""
        ...

    def oracle(self, inputs: Mapping[str, Array], rows: Array | None = None) -> Arrays:
        """Every output in float64; with ``rows`` only those rows (first axis) of each."""
        ...

    def scale(self, inputs: Mapping[str, Array], rows: Array | None = None, oracle: Arrays | None = None) -> Arrays:
        """Every output's scale, one value a row: the task's own or the largest |oracle| of the row."""
        ...

    def honest_variants(self, inputs: Mapping[str, Array], rows: Array | None = None) -> dict[str, Arrays]:
        """Outputs of honest ways to compute it in the allowed precisions."""
        ...

    def mutants(self, inputs: Mapping[str, Array]) -> dict[str, Arrays]:
        """The task's own wrong answers (whole outputs)."""
        ...

    def traffic_bytes(self, workload: Workload) -> int:
        """Bytes that one call must move at least."""
        ...

    def operations(self, workload: Workload) -> int:
        """Arithmetic operations of one call."""
        ...


def load_reference(task: Task) -> Reference:
    """Load ``reference.py`` of a task.

    Raises:
        TaskError: it is missing, does not import, or lacks a function.
    """
    ...


def check_reference(reference: Reference) -> None:
    """Check that the reference agrees with itself on a small workload of each family.

    Raises:
        TaskError: the oracle gives two answers, ``rows`` disagrees with the whole, or an honest variant is far off.
    """
    ...
