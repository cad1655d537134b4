"""Vetting a task: wrong answers must fail, honest ones must pass, outputs must depend on inputs (``evolve check``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluators.compare import Comparison, compare_outputs
from evaluators.content import transformed
from evaluators.dtypes import Array
from evaluators.errors import TaskError
from evaluators.evaluation import Status
from evaluators.mutants import SEVERAL_ROWS, Case, Mutant, mutants
from evaluators.reference import Arrays, Reference, check_reference, load_reference
from evaluators.reuse import reuse_hints
from evaluators.task import Task, Workload
from evaluators.task_loading import load_task
from evaluators.tolerance import LOCK_NAME, OutputLimits, ToleranceLock, load_lock, measure_limits, write_lock

_SEED = 0x5EED


@dataclass(frozen=True)
class CheckRow:
    """One thing that was checked: a line of the table that ``evolve check`` prints."""

    subject: str
    """For instance ``mutant all zeros``, ``variant sequential``, ``baseline plain``."""
    workload: str
    family: str
    outcome: str
    """What happened, in a few words: ``caught: max error 812 ulp, limit 1.6``."""


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
    hints: tuple[str, ...] = ()
    """What its author should think about, a line each: no reason to refuse it."""


ProgramCheck = Callable[[Task], Sequence[CheckRow]]
"""Judges baselines and seed program of a task; raises ``TaskError`` where one does not pass."""


def check_task(task: Task, *, freeze: bool = False, programs: ProgramCheck | None = None) -> CheckReport:
    """Vet a task, and freeze its limits where there are none or where ``freeze`` asks for it.

    Args:
        task: the task.
        freeze: measure the limits again and write them, although there are some.
        programs: what runs baselines and seed program through the judge, last, once the limits are written.

    Raises:
        TaskError: a mutant was let through, an honest variant fails, or outputs do not vary. No lock is written then.
    """
    rows: tuple[CheckRow, ...] = ()
    hints: tuple[str, ...] = ()
    lock_path = None
    measure = False
    if task.reference_path.is_file():
        lock_path = task.folder / LOCK_NAME
        reference = load_reference(task)
        check_reference(reference)
        measure = freeze or not lock_path.exists()
        lock = measure_limits(reference) if measure else load_lock(task)
        rows = tuple(_vet(reference, lock))
        hints = reuse_hints(reference)
        if measure:
            write_lock(lock, task.folder)
            task = load_task(task.folder)
    if programs is not None:
        rows += tuple(programs(task))
    return CheckReport(task, rows, lock_path, measure, hints)


def _vet(reference: Reference, lock: ToleranceLock) -> Iterator[CheckRow]:
    """Everything that can be checked without running a program."""
    for workload in reference.task.workloads:
        for family in reference.families:
            yield from _honest_pass(reference, workload, family, lock.of(workload.name, family))
    for workload in reference.task.search_workloads():
        yield from _mutants_fail(reference, workload, lock.of(workload.name, reference.families[0]))


def _rng(reference: Reference, workload: Workload, family: str, draw: int) -> np.random.Generator:
    key = (reference.task.workloads.index(workload), reference.families.index(family), draw)
    return np.random.default_rng(np.random.SeedSequence(_SEED, spawn_key=key))


def _honest_pass(reference: Reference, workload: Workload, family: str, limits: OutputLimits) -> Iterator[CheckRow]:
    """Honest variants pass on content that their limits were not measured on, and on what timed rounds make of it."""
    rng = _rng(reference, workload, family, 0)
    inputs = reference.generate(workload, family, rng)
    rows = reference.sample_rows(workload, SEVERAL_ROWS, rng)
    yield from _variants_pass(reference, workload, family, limits, inputs, rows)
    if family == reference.families[0]:
        changed = transformed(reference, inputs, rng)
        yield from _variants_pass(reference, workload, family, limits, changed, rows, " in timed rounds")


def _variants_pass(
    reference: Reference,
    workload: Workload,
    family: str,
    limits: OutputLimits,
    inputs: Arrays,
    rows: Array,
    where: str = "",
) -> Iterator[CheckRow]:
    oracle = reference.oracle(inputs, rows)
    scale = reference.scale(inputs, rows, oracle)
    for variant, outputs in reference.honest_variants(inputs, rows).items():
        result = compare_outputs(outputs, oracle, scale, limits, reference.outputs, rows=rows)
        if not result.passed:
            why = "the limits were measured on too little"
            if where:
                why = "values move there within their power of two: set LIMITS_IN_ROUNDS = True and freeze anew"
            raise TaskError(
                f"{reference.path}: honest variant {variant!r} fails on workload {workload.name!r}, "
                f"family {family!r}{where}: {result.message}; {why}"
            )
        yield CheckRow(f"variant {variant}{where}", workload.name, family, f"passes: {_against_limit(result)}")


def _mutants_fail(reference: Reference, workload: Workload, limits: OutputLimits) -> Iterator[CheckRow]:
    """Every mutant is caught on the ordinary family, and the outputs depend on the inputs."""
    family = reference.families[0]
    case, scale = _case(reference, workload)
    yield from _varies(reference, workload, case, scale, limits)
    for mutant in mutants(reference, case, _rng(reference, workload, family, 2)):
        result = _judge_mutant(reference, mutant, case, scale, limits)
        if result.passed:
            raise TaskError(
                f"{reference.task.folder}: mutant {mutant.name!r} passes on workload {workload.name!r}: "
                f"{_against_limit(result)}; a task that lets it through cannot be trusted"
            )
        yield CheckRow(f"mutant {mutant.name}", workload.name, family, f"caught: {_against_limit(result)}")


def _case(reference: Reference, workload: Workload) -> tuple[Case, Arrays]:
    """Two draws of the ordinary family, and the first one's scale."""
    family = reference.families[0]
    inputs, other = (reference.generate(workload, family, _rng(reference, workload, family, draw)) for draw in (0, 1))
    oracle, other_oracle = reference.oracle(inputs), reference.oracle(other)
    return Case(workload, inputs, oracle, other, other_oracle), reference.scale(inputs, oracle=oracle)


def _judge_mutant(
    reference: Reference, mutant: Mutant, case: Case, scale: Mapping[str, Array], limits: OutputLimits
) -> Comparison:
    oracle = case.oracle
    if mutant.rows is not None:
        oracle = {name: array[mutant.rows] for name, array in oracle.items()}
        scale = {name: array[mutant.rows] for name, array in scale.items()}
    return compare_outputs(mutant.outputs, oracle, scale, limits, reference.outputs, rows=mutant.rows)


def _varies(
    reference: Reference, workload: Workload, case: Case, scale: Mapping[str, Array], limits: OutputLimits
) -> Iterator[CheckRow]:
    """Each input matters: replacing one by that of another draw gives an output that the limits tell apart."""
    rows = reference.sample_rows(workload, SEVERAL_ROWS, np.random.default_rng(_SEED))
    oracle = {name: array[rows] for name, array in case.oracle.items()}
    some_scale = {name: array[rows] for name, array in scale.items()}
    for arg in reference.inputs:
        changed = reference.oracle({**case.inputs, arg.name: case.other_inputs[arg.name]}, rows)
        constant = reference.encoded(changed)
        result = compare_outputs(constant, oracle, some_scale, limits, reference.outputs, rows=rows)
        if result.passed:
            raise TaskError(
                f"{reference.path}: workload {workload.name!r}: the outputs do not depend on {arg.name!r} within the "
                f"limits ({_against_limit(result)}); a constant would pass"
            )
        family = reference.families[0]
        yield CheckRow(f"input {arg.name} matters", workload.name, family, _against_limit(result))


def _against_limit(result: Comparison) -> str:
    """Errors beside their limits, in a few words; the limit that decided first."""
    errors = result.errors
    if result.status is Status.NOT_FINITE or errors.max_ulp is None or errors.rms_ulp is None:
        return "NaN or Inf misplaced"
    largest = f"max error {errors.max_ulp:.4g} ulp, limit {errors.max_limit_ulp:.4g}"
    rms = f"rms error {errors.rms_ulp:.4g} ulp, limit {errors.rms_limit_ulp:.4g}"
    by_rms_alone = not result.passed and errors.max_ulp <= errors.max_limit_ulp
    return f"{rms}; {largest}" if by_rms_alone else f"{largest}; {rms}"
