"""A task's trusted ``reference.py``: generator, float64 oracle, honest variants. Loaded in the judge only.

The module provides (arrays in the storage types of :mod:`evaluators.dtypes`, or fp32 numbers that are rounded to the
argument's type where NumPy has none for it; rows along the first axis):

- ``FAMILIES``: names of input families, the ordinary one first;
- ``generate(axes, family, rng)``: content for every ``in``, ``inout`` and ``const`` argument;
- ``oracle(inputs, rows=None)``: every output in float64 (longdouble for fp64 outputs), or only those rows of it;
- ``honest_variants(inputs, rows=None)``: name -> outputs, as honest programs of the allowed precisions compute them;
- ``operations(axes)``: what one call must do at least;
- optional ``traffic_bytes(axes)``: what it must move at least, default every argument once;
- optional ``scale(inputs, rows=None)``: the magnitude against which a row's error counts, default max |oracle|;
- optional ``mutants(inputs, rows=None)``: name -> outputs that are wrong and must be caught;
- optional ``LIMITS_IN_ROUNDS``: limits of the ordinary family are measured on what timed rounds make of it, too;
- optional ``ROW_AXIS``: an axis along which output rows are independent: limits are measured on fewer of them;
- optional ``COLUMN_AXIS``: one along which all outputs are independent too, so that limits need few columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from evaluators.compare import Limit, compare
from evaluators.dtypes import DTYPES, Array, encode, storage_dtype
from evaluators.errors import TaskError
from evaluators.shapes import axis_names, evaluate_shape
from evaluators.task import Arg, DType, Task, Workload

Arrays = dict[str, Array]

_REQUIRED = ("generate", "oracle", "honest_variants", "operations")


@dataclass(frozen=True)
class Reference:
    """The functions of ``reference.py``; what they return is checked for names, shapes and dtypes on every call."""

    task: Task
    module: ModuleType = field(repr=False)
    families: tuple[str, ...]
    """Input families; the first is the ordinary one, which timed rounds use."""
    row_axis: str | None
    """An axis along which output rows do not depend on each other, so that limits may be measured on fewer rows."""
    column_axis: str | None = None
    """The same of outputs' columns."""

    @property
    def limits_in_rounds(self) -> bool:
        """Whether limits of the ordinary family are measured on what timed rounds make of it, too."""
        return bool(getattr(self.module, "LIMITS_IN_ROUNDS", False))

    @property
    def path(self) -> Path:
        """The file."""
        return self.task.reference_path

    @cached_property
    def inputs(self) -> tuple[Arg, ...]:
        """The arguments that a generator fills."""
        return tuple(arg for arg in self.task.args if arg.role != "out")

    @cached_property
    def outputs(self) -> dict[str, DType]:
        """Outputs and their dtypes, in calling order."""
        return {arg.name: arg.dtype for arg in self.task.args if arg.role in ("out", "inout")}

    def input_shapes(self, workload: Workload) -> dict[str, tuple[int, ...]]:
        """Shapes of what a generator fills, in calling order."""
        return {arg.name: evaluate_shape(arg, workload.axes) for arg in self.inputs}

    def output_shapes(self, workload: Workload) -> dict[str, tuple[int, ...]]:
        """Shapes of the outputs, in calling order."""
        shapes = {arg.name: evaluate_shape(arg, workload.axes) for arg in self.task.args}
        return {name: shapes[name] for name in self.outputs}

    def sample_rows(self, workload: Workload, count: int, rng: np.random.Generator) -> Array:
        """At most ``count`` row numbers that every output has, sorted and different."""
        rows = min(shape[0] for shape in self.output_shapes(workload).values())
        return np.sort(rng.choice(rows, min(rows, count), replace=False))

    def encoded(self, values: Mapping[str, Array]) -> Arrays:
        """Numbers as an ideal program would leave them in the output buffers."""
        return {name: encode(values[name], dtype) for name, dtype in self.outputs.items()}

    def generate(self, workload: Workload, family: str, rng: np.random.Generator) -> Arrays:
        """Fresh content for every input, C-contiguous, in storage dtypes.

        Raises:
            TaskError: the reference raised, or its answer does not fit the task's arguments.
        """
        made = self._call("generate", dict(workload.axes), family, rng)
        self._check_names("generate", made, {arg.name for arg in self.inputs})
        for arg in self.inputs:
            made[arg.name] = array = _stored(made[arg.name], arg.dtype)
            shape, dtype = evaluate_shape(arg, workload.axes), storage_dtype(arg.dtype)
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
                found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                raise self._error("generate", f"{arg.name!r} is {found}, must be {dtype}{list(shape)}")
        return {arg.name: np.ascontiguousarray(made[arg.name]) for arg in self.inputs}

    def oracle(self, inputs: Mapping[str, Array], rows: Array | None = None) -> Arrays:
        """Every output in float64; with ``rows`` only those rows (first axis) of each.

        Raises:
            TaskError: the reference raised, or its answer does not fit the task's arguments.
        """
        outputs = self._call("oracle", inputs, rows)
        self._check_outputs("oracle", outputs, inputs, rows)
        return dict(outputs)

    def scale(
        self, inputs: Mapping[str, Array], rows: Array | None = None, oracle: Mapping[str, Array] | None = None
    ) -> Arrays:
        """Every output's scale, one value a row: the task's own, or the largest finite |oracle| of the row."""
        if hasattr(self.module, "scale"):
            scales = self._call("scale", inputs, rows)
            self._check_names("scale", scales, set(self.outputs))
            return dict(scales)
        expected = self.oracle(inputs, rows) if oracle is None else oracle
        return {name: largest_of_rows(expected[name]) for name in self.outputs}

    def honest_variants(self, inputs: Mapping[str, Array], rows: Array | None = None) -> dict[str, Arrays]:
        """Outputs of honest ways to compute it in the allowed precisions, in storage dtypes."""
        return self._variants("honest_variants", inputs, rows)

    def mutants(self, inputs: Mapping[str, Array], rows: Array | None = None) -> dict[str, Arrays]:
        """The task's own wrong answers, in storage dtypes; none where it names none."""
        return self._variants("mutants", inputs, rows) if hasattr(self.module, "mutants") else {}

    def traffic_bytes(self, workload: Workload) -> int:
        """Bytes that one call must move at least: inputs read once, outputs written once."""
        if hasattr(self.module, "traffic_bytes"):
            return int(self._call("traffic_bytes", dict(workload.axes)))
        shapes = {arg: evaluate_shape(arg, workload.axes) for arg in self.task.args}
        return sum(
            prod(shape) * storage_dtype(arg.dtype).itemsize * (2 if arg.role == "inout" else 1)
            for arg, shape in shapes.items()
        )

    def operations(self, workload: Workload) -> int:
        """Arithmetic operations of one call."""
        return int(self._call("operations", dict(workload.axes)))

    def _axes_of(self, inputs: Mapping[str, Array]) -> dict[str, int] | None:
        """The axes these inputs were generated for, among the task's workloads; ``None`` where none fits."""
        for workload in self.task.workloads:
            if all(inputs[arg.name].shape == evaluate_shape(arg, workload.axes) for arg in self.inputs):
                return dict(workload.axes)
        return None

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self.module, function)(*arguments)
        except Exception as error:  # a task author's code: whatever it raises is a mistake in the task
            raise self._error(function, f"raised {_describe(error, self.path)}") from error

    def _variants(self, function: str, inputs: Mapping[str, Array], rows: Array | None) -> dict[str, Arrays]:
        variants = self._call(function, inputs, rows)
        if not isinstance(variants, dict) or (function == "honest_variants" and not variants):
            raise self._error(function, "must return at least one variant, as a dict of name -> outputs")
        for name, outputs in variants.items():
            self._check_outputs(f"{function}[{name!r}]", outputs, inputs, rows)
            for output, dtype in self.outputs.items():
                outputs[output] = _stored(outputs[output], dtype)
                if outputs[output].dtype != storage_dtype(dtype):
                    found, wanted = outputs[output].dtype, storage_dtype(dtype)
                    raise self._error(f"{function}[{name!r}]", f"{output!r} is {found}, must be {wanted}")
        return variants

    def _check_outputs(self, what: str, outputs: Any, inputs: Mapping[str, Array], rows: Array | None) -> None:
        self._check_names(what, outputs, set(self.outputs))
        axes = self._axes_of(inputs)
        for arg in self.task.args:
            if arg.name not in self.outputs:
                continue
            found = outputs[arg.name]
            if not isinstance(found, np.ndarray):
                raise self._error(what, f"{arg.name!r} is {type(found).__name__}, must be an array")
            if rows is not None and len(found) != len(rows):
                raise self._error(what, f"{arg.name!r} has {len(found)} rows where {len(rows)} were asked for")
            if rows is None and axes is not None and found.shape != evaluate_shape(arg, axes):
                wanted = list(evaluate_shape(arg, axes))
                raise self._error(what, f"{arg.name!r} has shape {list(found.shape)}, must be {wanted} for {axes}")

    def _check_names(self, what: str, made: Any, wanted: set[str]) -> None:
        if not isinstance(made, dict) or set(made) != wanted:
            found = sorted(made) if isinstance(made, dict) else type(made).__name__
            raise self._error(what, f"returned {found}, must return a dict with keys {sorted(wanted)}")

    def _error(self, function: str, text: str) -> TaskError:
        return TaskError(f"{self.path}: {function}: {text}")


def load_reference(task: Task) -> Reference:
    """Load ``reference.py`` of a task.

    Raises:
        TaskError: it is missing, does not import, or lacks a function.
    """
    path = task.reference_path
    module = import_file(path)
    for name in _REQUIRED:
        if not callable(getattr(module, name, None)):
            raise TaskError(f"{path}: function {name!r} is missing")
    families = getattr(module, "FAMILIES", None)
    if not isinstance(families, tuple | list) or not families or not all(isinstance(f, str) for f in families):
        raise TaskError(f"{path}: FAMILIES must be a tuple of names, the ordinary family first")
    axes = {name: getattr(module, name, None) for name in ("ROW_AXIS", "COLUMN_AXIS")}
    for name, axis in axes.items():
        if axis is not None and axis not in axis_names(task.args):
            raise TaskError(f"{path}: {name} = {axis!r} is not an axis of the task")
    return Reference(task, module, tuple(families), axes["ROW_AXIS"], axes["COLUMN_AXIS"])


def check_reference(reference: Reference) -> None:
    """Check that the reference agrees with itself, on small workloads of every family.

    Raises:
        TaskError: two calls with the same arguments give two answers, ``rows`` disagrees with the whole, inputs are
            changed, a scale is no scale, or an honest variant is far off.
    """
    task = reference.task
    smallest = min(task.workloads, key=reference.traffic_bytes)
    scored = min(task.search_workloads(), key=reference.traffic_bytes)
    for number, family in enumerate(reference.families):
        _check_once(reference, smallest, family, number)
    _check_once(reference, scored, reference.families[0], len(reference.families))


def _check_once(reference: Reference, workload: Workload, family: str, number: int) -> None:
    """The checks of :func:`check_reference` on one draw."""
    place = f"{reference.path}: workload {workload.name!r}, family {family!r}"

    def draw() -> Arrays:
        return reference.generate(workload, family, np.random.default_rng([number, 0xC4EC]))

    inputs, kept = draw(), draw()
    if not _same(inputs, kept):
        raise TaskError(f"{place}: generate gives two contents for one rng; take every random number from rng")
    whole = reference.oracle(inputs)
    if not _same(whole, reference.oracle(inputs)):
        raise TaskError(f"{place}: oracle gives two answers for the same inputs")
    scale = reference.scale(inputs, oracle=whole)
    count = min(len(output) for output in whole.values())
    rows = np.unique(np.linspace(0, max(count - 1, 0), min(count, 5)).astype(np.int64))
    part, part_scale = reference.oracle(inputs, rows), reference.scale(inputs, rows)
    variants = reference.honest_variants(inputs, rows)
    if not _same(inputs, kept):
        raise TaskError(f"{place}: the reference changes its inputs; work on copies")
    for name, dtype in reference.outputs.items():
        if np.isnan(scale[name]).any() or (scale[name] < 0).any() or len(scale[name]) != len(whole[name]):
            raise TaskError(f"{place}: scale of {name!r} must be one number, not negative, for every row")
        # Both in float64 but perhaps in another order of additions: far below what any output dtype can show.
        for what, value, wanted in (("oracle", part, whole), ("scale", part_scale, scale)):
            tolerance = 0 if DTYPES[dtype].exact else 2.0**-40
            slack = tolerance * largest_of_rows(wanted[name])[rows] + tolerance * largest_of_rows(scale[name])[rows]
            if not _close(value[name], wanted[name][rows], slack):
                raise TaskError(f"{place}: {what} of {name!r} for some rows disagrees with the same rows of the whole")
        far = Limit(far_off_ulp(task_precision(reference.task, dtype), dtype), float("inf"))
        for variant, outputs in variants.items():
            result = compare(outputs[name], part[name], part_scale[name], far, dtype, name=name, rows=rows)
            if not result.passed:
                raise TaskError(f"{place}: honest variant {variant!r} is far off the oracle: {result.message}")


def task_precision(task: Task, dtype: DType) -> DType:
    """The least precise dtype that may be used inside for an output of ``dtype``."""
    allowed = [name for name in (*task.allowed_precision, dtype) if not DTYPES[name].exact] or [dtype]
    return min(allowed, key=lambda name: DTYPES[name].precision)


def far_off_ulp(inside: DType, dtype: DType) -> float:
    """The error, in ulp of ``dtype``, at which a program in precision ``inside`` has lost half of its digits."""
    return float(2.0 ** (DTYPES[dtype].precision - DTYPES[inside].precision / 2))


def _stored(array: Any, dtype: DType) -> Any:
    """Numbers in fp32 as bits, for a type that NumPy does not have; anything else as it is."""
    packed = not DTYPES[dtype].exact and storage_dtype(dtype).kind == "u"
    is_numbers = isinstance(array, np.ndarray) and array.dtype == np.float32
    return encode(array, dtype) if packed and is_numbers else array


def _same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Equal to the bit; where bytes between the numbers hold nothing (longdouble), equal in value."""
    return all(
        np.array_equal(one[name], other[name], equal_nan=True)
        if one[name].dtype == np.longdouble
        else one[name].tobytes() == other[name].tobytes()
        for name in one
    )


def _close(value: Array, wanted: Array, slack: Array) -> bool:
    if value.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "biu":
        return bool((value == wanted).all())
    column = slack.reshape(slack.shape + (1,) * (wanted.ndim - 1))
    with np.errstate(invalid="ignore"):
        near = np.abs(value - wanted) <= column
    return bool((near | (value == wanted) | (np.isnan(value) & np.isnan(wanted))).all())


def import_file(path: Path) -> ModuleType:
    """Run a trusted file as a module, leaving no compiled file beside it."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path}: {error.strerror}") from None
    module = ModuleType(f"evolve_task_{path.parent.name}_{path.stem}")
    module.__file__ = str(path)
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except Exception as error:  # a task author's code: whatever it raises is a mistake in the task
        raise TaskError(f"{path}: {_describe(error, path)}") from error
    return module


def _describe(error: Exception, path: Path) -> str:
    """An exception in one line, with the line of the file that it came from."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{f' in line {line}' if line else ''}: {text}"


def largest_of_rows(expected: Array) -> Array:
    """The largest finite magnitude of every row, in float64."""
    magnitude = np.abs(np.asarray(expected, dtype=np.float64))
    magnitude = np.where(np.isfinite(magnitude), magnitude, 0.0).reshape(len(expected), -1)
    largest: Array = magnitude.max(axis=1, initial=0.0)
    return largest
