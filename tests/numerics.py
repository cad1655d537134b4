"""Honest programs and mutants of a task's reference, drawn from one seed after another, beside its frozen limits.

Rows of an output do not depend on each other, so few of them are drawn; where columns do not either (a matrix product)
few of those are, too. What a limit is about, the length of a sum, stays as it is in the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evaluators.check import _judge_mutant
from evaluators.compare import compare, compare_outputs
from evaluators.content import transformed
from evaluators.dtypes import DTYPES, Array
from evaluators.mutants import Case, mutants
from evaluators.reference import Arrays, Reference, load_reference
from evaluators.task import Workload
from evaluators.task_loading import load_task
from evaluators.tolerance import ROWS, ToleranceLock, _measured_workload, load_lock
from tests.exact_compare import exact_verdict

OTHER_SEEDS = 10_000
"""Limits are measured on seeds from 0 on."""
COLUMNS = {"matmul_bf16": ("N", 128)}
"""Task -> an axis along which outputs do not depend on each other, and how much of it is drawn.

An error counts against the row's largest output, which is smaller where there are fewer: that makes it harder for the
honest. Mutants are held against twice the scale, more than all columns could make of it: the largest of 14,336 normal
numbers is 1.6 times the largest of 128.
"""
NARROW_SCALE = 2.0
EXACT_ROWS, EXACT_COLUMNS = 4, 16
"""Elements of an output that are compared in exact arithmetic as well."""

Reorder = Callable[[Arrays, np.random.Generator], tuple[Arrays, Callable[[Array], Array]]]


def _softmax_order(inputs: Arrays, rng: np.random.Generator) -> tuple[Arrays, Callable[[Array], Array]]:
    order = rng.permutation(inputs["x"].shape[1])
    back = np.argsort(order)
    return {"x": np.ascontiguousarray(inputs["x"][:, order])}, lambda out: out[:, back]


def _matmul_order(inputs: Arrays, rng: np.random.Generator) -> tuple[Arrays, Callable[[Array], Array]]:
    order = rng.permutation(inputs["x"].shape[1])
    return {name: np.ascontiguousarray(array[:, order]) for name, array in inputs.items()}, lambda out: out


def _q4_order(inputs: Arrays, rng: np.random.Generator) -> tuple[Arrays, Callable[[Array], Array]]:
    """Blocks, and bytes within all blocks."""
    scales = inputs["scales"]
    blocks, byte = rng.permutation(scales.shape[1]), rng.permutation(16)
    nibbles = inputs["nibbles"].reshape(len(scales), -1, 16)[:, blocks][:, :, byte]
    x = inputs["x"].reshape(-1, 2, 16)[blocks][:, :, byte]
    changed = {"nibbles": nibbles.reshape(len(scales), -1), "scales": scales[:, blocks], "x": x.reshape(-1)}
    return {name: np.ascontiguousarray(array) for name, array in changed.items()}, lambda out: out


REORDERED: dict[str, Reorder] = {
    "softmax": _softmax_order,
    "softmax_rows": _softmax_order,
    "matmul_bf16": _matmul_order,
    "q4_matvec_cpu": _q4_order,
}
"""Tasks whose sums can be taken in an order drawn at random: every honest variant then is one that nobody measured."""


@dataclass
class Findings:
    """What some draws showed."""

    honest: int = 0
    """Honest answers compared."""
    nearest: float = 0.0
    """The largest share of its limit that an honest error had."""
    mutants: int = 0
    """Mutants compared."""
    exact: int = 0
    """Comparisons made in exact arithmetic too."""
    failures: list[str] = field(default_factory=list)
    """Honest answers that failed, mutants that passed, comparators that disagreed."""

    def add(self, other: Findings) -> None:
        """Take another's in."""
        self.honest += other.honest
        self.nearest = max(self.nearest, other.nearest)
        self.mutants += other.mutants
        self.exact += other.exact
        self.failures += other.failures


class Numerics:
    """One task's reference and limits."""

    def __init__(self, folder: Path) -> None:
        task = load_task(folder)
        self.reference: Reference = load_reference(task)
        self.lock: ToleranceLock = load_lock(task)
        self._axis, self._columns = COLUMNS.get(folder.name, (None, 0))
        self._reorder = REORDERED.get(folder.name)

    @property
    def families(self) -> tuple[str, ...]:
        """The input families."""
        return self.reference.families

    def workloads(self, most_elements: int | None = None) -> list[Workload]:
        """All workloads with few rows and columns, but for those whose inputs have more elements than that.

        Of several that become the same one by this only the first.
        """
        narrow: dict[tuple[int, ...], Workload] = {}
        for workload in self.reference.task.workloads:
            small = self._narrowed(_measured_workload(self.reference, workload))
            if most_elements is None or self._elements(small) <= most_elements:
                narrow.setdefault(tuple(small.axes.values()), small)
        return list(narrow.values())

    def honest(self, workload: Workload, families: Iterable[str], seed: int) -> Findings:
        """Every honest variant on one draw of each family, as it is and with its sums in another order.

        Of the ordinary family also on what a timed round makes of it.
        """
        found = Findings()
        for family in families:
            rng = np.random.default_rng([OTHER_SEEDS + seed, self.families.index(family)])
            inputs = self.reference.generate(workload, family, rng)
            where = f"{workload.name}, {family}, seed {seed}"
            self._honest(workload, family, inputs, rng, where, found)
            if family == self.families[0]:
                changed = transformed(self.reference, inputs, rng)
                self._honest(workload, family, changed, rng, f"{where}, transformed", found)
        return found

    def _honest(
        self, workload: Workload, family: str, inputs: Arrays, rng: np.random.Generator, where: str, found: Findings
    ) -> None:
        rows = self.reference.sample_rows(workload, ROWS, rng)
        oracle = self.reference.oracle(inputs, rows)
        scale, limits = self.reference.scale(inputs, rows, oracle), self.lock.of(workload.name, family)
        for variant, outputs in self._variants(inputs, rows, rng):
            result = compare_outputs(outputs, oracle, scale, limits, self.reference.outputs, rows=rows)
            found.honest += 1
            found.nearest = max(found.nearest, result.share_of_limit)
            if not result.passed:
                found.failures.append(f"{where}, {variant}: {result.message}")
            if found.honest % 5 == 1:
                found.exact += 1
                inexact = self._inexact(outputs, oracle, scale, limits)
                found.failures += [f"{where}, {variant}: {words}" for words in inexact]

    def surviving(self, workload: Workload, seed: int) -> Findings:
        """Every mutant of the reference on one draw of the ordinary family."""
        found, rng = Findings(), np.random.default_rng([OTHER_SEEDS + seed, len(self.families)])
        family, reference = self.families[0], self.reference
        inputs, other = (reference.generate(workload, family, rng) for _ in range(2))
        oracle = reference.oracle(inputs)
        case = Case(workload, inputs, oracle, other, reference.oracle(other))
        scale = reference.scale(inputs, oracle=oracle)
        widened = {name: array * (NARROW_SCALE if self._axis else 1) for name, array in scale.items()}
        for mutant in mutants(reference, case, rng):
            found.mutants += 1
            if _judge_mutant(reference, mutant, case, widened, self.lock.of(workload.name, family)).passed:
                found.failures.append(f"{workload.name}, seed {seed}: mutant {mutant.name} passes")
        return found

    def _narrowed(self, workload: Workload) -> Workload:
        if self._axis is None:
            return workload
        columns = min(workload.axes[self._axis], self._columns)
        return workload.model_copy(update={"axes": {**workload.axes, self._axis: columns}})

    def _elements(self, workload: Workload) -> int:
        return sum(int(np.prod(shape)) for shape in self.reference.input_shapes(workload).values())

    def _variants(self, inputs: Arrays, rows: Array, rng: np.random.Generator) -> Iterator[tuple[str, Arrays]]:
        yield from self.reference.honest_variants(inputs, rows).items()
        if self._reorder is not None:
            changed, back = self._reorder(inputs, rng)
            for name, outputs in self.reference.honest_variants(changed, rows).items():
                yield f"{name} in another order", {key: back(array) for key, array in outputs.items()}

    def _inexact(self, outputs: Arrays, oracle: Arrays, scale: Arrays, limits: object) -> Iterator[str]:
        """Where the comparator and exact arithmetic disagree on a corner of the outputs."""
        for name, dtype in self.reference.outputs.items():
            if DTYPES[dtype].exact or scale[name].ndim != 1:
                continue
            part = (slice(EXACT_ROWS), slice(EXACT_COLUMNS))[: outputs[name].ndim]
            got, wanted, row_scale = outputs[name][part], oracle[name][part], scale[name][:EXACT_ROWS]
            limit = limits[name]  # type: ignore[index]
            result = compare(got, wanted, row_scale, limit, dtype, name=name)
            column = row_scale.reshape(-1, *[1] * (got.ndim - 1))
            yield from exact_verdict(got, wanted, column, dtype).disagreements(result, limit)


def rotating(families: Sequence[str], seed: int, count: int) -> list[str]:
    """So many of the families, others for the next seed."""
    return [families[(seed * count + step) % len(families)] for step in range(min(count, len(families)))]
