"""``tolerance.lock``: how large an error may be, frozen before the first trial.

Per workload, input family and output: ``max(c * the worst honest error over all seeds, u ulp)``, for the worst element
and for the rms. Honest programs differ in the order of their additions and in the precisions the task allows; a limit
measured from all of them lets each pass and nothing less precise.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluators.compare import Comparison, Limit, compare
from evaluators.content import transformed
from evaluators.dtypes import DTYPES, Array
from evaluators.errors import TaskError
from evaluators.reference import Arrays, Reference
from evaluators.task import Task, Workload

LOCK_NAME = "tolerance.lock"
FACTOR = 2.0
"""c: an honest program that nobody thought of may err somewhat more than those that were measured."""
MAX_FLOOR_ULP = 1.0
"""u for the worst element: a result on the wrong side of a rounding is still honest."""
RMS_FLOOR_ULP = 0.3
"""u for the rms: 1 / sqrt(12), the rms of correct rounding."""
ROWS = 64
"""Rows measured a seed."""
COLUMNS = 256
"""Columns of them, where those are independent too."""
SEEDS = 100

_LIMITS_OFF = Limit(math.inf, math.inf)

OutputLimits = Mapping[str, Limit]


@dataclass(frozen=True)
class ToleranceLock:
    """The frozen limits of a task and how they were measured."""

    reference_hash: str
    """Hash of reference, arguments and workloads that they were measured for."""
    limits: Mapping[str, Mapping[str, OutputLimits]]
    """Workload's name -> input family -> output's name -> limit. Integers and bools have none: they must be equal."""
    measured: Mapping[str, object]
    """c, floors, seeds, rows, variants, NumPy's version."""

    def of(self, workload: str, family: str) -> OutputLimits:
        """Limits of every output for one workload and family.

        Raises:
            TaskError: the lock has none.
        """
        try:
            return self.limits[workload][family]
        except KeyError:
            raise TaskError(f"{LOCK_NAME}: no limits for workload {workload!r}, family {family!r}") from None


def reference_hash(task: Task) -> str:
    """Hash of what limits are measured from: ``reference.py``, arguments, precisions and workloads."""
    dump = task.model_dump(mode="json", include={"args", "allowed_precision", "workloads"})
    for workload in dump["workloads"]:
        del workload["weight"], workload["source"], workload["split"]
    for arg in dump["args"]:
        del arg["transform"]
    digest = hashlib.sha256(json.dumps(dump, sort_keys=True).encode())
    digest.update(task.reference_path.read_bytes())
    return digest.hexdigest()


def measure_limits(reference: Reference, seeds: int = SEEDS) -> ToleranceLock:
    """Measure the limits from the honest variants; the same figures every time with the same NumPy.

    Raises:
        TaskError: an honest variant is NaN or Inf where the oracle is not, or the reverse.
    """
    variants: dict[str, None] = {}
    limits: dict[str, dict[str, dict[str, Limit]]] = {}
    known: dict[tuple[tuple[str, int], ...], dict[str, dict[str, Limit]]] = {}
    for workload in (_measured_workload(reference, one) for one in reference.task.workloads):
        axes = tuple(workload.axes.items())
        if axes not in known:
            known[axes] = {
                family: _measure_family(reference, workload, family, seeds, variants) for family in reference.families
            }
        limits[workload.name] = known[axes]
    measured = {
        "c": FACTOR,
        "max_floor_ulp": MAX_FLOOR_ULP,
        "rms_floor_ulp": RMS_FLOOR_ULP,
        "seeds": seeds,
        "rows": ROWS,
        **({} if reference.column_axis is None else {"columns": COLUMNS}),
        **({"in_rounds": True} if reference.limits_in_rounds else {}),
        "variants": list(variants),
        "numpy": np.__version__,
    }
    return ToleranceLock(reference_hash(reference.task), limits, measured)


def _measured_workload(reference: Reference, workload: Workload) -> Workload:
    """The workload with just as many rows as are measured, where rows are independent: many where it has few.

    And with at most so many columns, where those are independent. A row's scale, its largest result, is then somewhat
    smaller than over all of its columns, and an error in ulp of it larger: never is a limit too tight by that.
    """
    axes = dict(workload.axes)
    if reference.row_axis is not None:
        axes[reference.row_axis] = ROWS
    if reference.column_axis is not None:
        axes[reference.column_axis] = min(axes[reference.column_axis], COLUMNS)
    return workload.model_copy(update={"axes": axes})


def _measure_family(
    reference: Reference, workload: Workload, family: str, seeds: int, variants: dict[str, None]
) -> dict[str, Limit]:
    """Limits of one workload and family; adds the names of the variants met."""
    worst: dict[str, _Worst] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(reference.families.index(family),)))
        for variant, output, result in _honest_errors(reference, workload, family, rng):
            variants[variant] = None
            worst.setdefault(output, _Worst()).take(result, f"{reference.path}: honest variant {variant!r}")
    return {name: found.limit() for name, found in worst.items()}


def write_lock(lock: ToleranceLock, folder: Path) -> Path:
    """Write the lock beside ``task.toml``, atomically.

    Raises:
        TaskError: the folder cannot be written.
    """
    path = folder / LOCK_NAME
    draft = folder / f".{LOCK_NAME}.{os.getpid()}"
    try:
        draft.write_text(_to_toml(lock), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise TaskError(f"{path}: {error.strerror}; limits cannot be frozen there") from None
    return path


def load_lock(task: Task) -> ToleranceLock:
    """Read the lock beside ``task.toml``.

    Raises:
        TaskError: missing, unreadable, or measured for another reference or other workloads.
    """
    path = task.folder / LOCK_NAME
    freeze = f"run: evolve check {task.folder} --freeze"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        lock = _from_toml(table)
    except FileNotFoundError:
        raise TaskError(f"{path}: no limits yet; {freeze}") from None
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise TaskError(f"{path}: not a lock ({type(error).__name__}: {error}); {freeze}") from None
    if lock.reference_hash != reference_hash(task):
        raise TaskError(f"{path}: measured for another reference or other workloads; {freeze}")
    return lock


class _Worst:
    """The worst error of one output over seeds and variants."""

    def __init__(self) -> None:
        self._max = 0.0
        self._rms = 0.0
        self._elements = 0

    def take(self, result: Comparison, who: str) -> None:
        if result.errors.max_ulp is None or result.errors.rms_ulp is None:
            raise TaskError(f"{who}: {result.message}")
        self._max = max(self._max, result.errors.max_ulp)
        self._rms = max(self._rms, result.errors.rms_ulp)
        self._elements = result.errors.elements

    def limit(self) -> Limit:
        return Limit(
            _round_up(max(FACTOR * self._max, MAX_FLOOR_ULP)),
            _round_up(max(FACTOR * self._rms, RMS_FLOOR_ULP)),
            self._elements,
        )


def _honest_errors(
    reference: Reference, workload: Workload, family: str, rng: np.random.Generator
) -> Iterator[tuple[str, str, Comparison]]:
    """Variant, output and comparison, for one draw: of the ordinary family also as timed rounds have it, if so told."""
    inputs = reference.generate(workload, family, rng)
    rows = reference.sample_rows(workload, ROWS, rng)
    yield from _errors_of(reference, inputs, rows, family)
    if reference.limits_in_rounds and family == reference.families[0]:
        yield from _errors_of(reference, transformed(reference, inputs, rng), rows, family)


def _errors_of(reference: Reference, inputs: Arrays, rows: Array, family: str) -> Iterator[tuple[str, str, Comparison]]:
    oracle = reference.oracle(inputs, rows)
    scale = reference.scale(inputs, rows, oracle)
    for variant, outputs in reference.honest_variants(inputs, rows).items():
        for name, dtype in reference.outputs.items():
            result = compare(outputs[name], oracle[name], scale[name], _LIMITS_OFF, dtype, name=name, rows=rows)
            if not DTYPES[dtype].exact:
                yield variant, name, result
            elif not result.passed:
                raise TaskError(f"{reference.path}: honest variant {variant!r}, family {family!r}: {result.message}")


def _round_up(value: float) -> float:
    """Four significant digits, upwards: a lock is read by people."""
    if value == 0 or not math.isfinite(value):
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / step) * step:.4g}")


def _to_toml(lock: ToleranceLock) -> str:
    lines = [
        "# Frozen by `evolve check`. How far an output may be from the float64 oracle, in ulp of the row's scale:",
        "# max(c * worst error of the honest variants over all seeds, floor), for the worst element and for the rms.",
        f'reference_hash = "{lock.reference_hash}"',
        "",
        "[measured]",
        *(f"{key} = {json.dumps(value)}" for key, value in lock.measured.items()),
    ]
    for workload, families in lock.limits.items():
        lines += ["", f'[limits."{workload}"]']
        for family, outputs in families.items():
            cells = (
                f"{name} = {{ max_ulp = {limit.max_ulp!r}, rms_ulp = {limit.rms_ulp!r}, elements = {limit.elements} }}"
                for name, limit in outputs.items()
            )
            lines.append(f'"{family}" = {{ {", ".join(cells)} }}')
    return "\n".join(lines) + "\n"


def _from_toml(table: Mapping[str, object]) -> ToleranceLock:
    limits = {
        workload: {
            family: {
                name: Limit(float(cell["max_ulp"]), float(cell["rms_ulp"]), int(cell["elements"]))
                for name, cell in outputs.items()
            }
            for family, outputs in families.items()
        }
        for workload, families in _table(table["limits"]).items()
    }
    return ToleranceLock(str(table["reference_hash"]), limits, _table(table["measured"]))


def _table(value: object) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    if not isinstance(value, dict):
        raise TypeError("not a table")
    return value
