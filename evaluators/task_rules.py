"""What a ``task.toml`` must obey beyond the type of each key."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from evaluators.errors import TaskError
from evaluators.shapes import ShapeError, axis_names, evaluate_shape
from evaluators.task import Language, Task

SUFFIXES: dict[str, tuple[Language, ...]] = {".cpp": ("cpp",), ".cu": ("cuda",), ".py": ("python", "triton", "torch")}
"""Which languages a source file of this suffix may be written in."""

_EVALUATOR = re.compile(r"[\w./-]+:[A-Za-z_]\w*")


def check_rules(task: Task, path: Path) -> None:
    """Check everything that involves more than one key.

    Raises:
        TaskError: one line that names ``path`` and the key.
    """
    for rule in (_check_kind, _check_expressions, _check_names, _check_shapes, _check_weights, _check_files):
        try:
            rule(task)
        except ValueError as error:
            raise TaskError(f"{path}: {error}") from None


def program_language(task: Task, file: str) -> Language:
    """The language of a source file: the first of the task's that its suffix fits.

    Raises:
        ValueError: none of the task's languages has such a suffix.
    """
    fitting = SUFFIXES.get(Path(file).suffix, ())
    for language in task.languages:
        if language in fitting:
            return language
    raise ValueError(f"{file!r} is of none of the task's languages: {', '.join(task.languages)}")


def _check_kind(task: Task) -> None:
    if not task.languages:
        raise ValueError('languages is empty; give at least one, for instance ["cpp"]')
    if not task.search_workloads():
        raise ValueError("workloads: none has split 'search'; give at least one")
    if not any(arg.role in ("out", "inout") for arg in task.args):
        raise ValueError("args: none has role 'out' or 'inout'; there is nothing to check")
    if task.evaluator != "kernel" and not _EVALUATOR.fullmatch(task.evaluator):
        raise ValueError(f"evaluator = {task.evaluator!r}: must be 'kernel', 'FILE.py:NAME' or 'PACKAGE.MODULE:NAME'")
    if task.evaluator == "kernel" and task.metric != "time":
        raise ValueError("metric = 'value': the kernel evaluator scores time; give an evaluator of your own")
    if task.evaluator != "kernel" and task.metric == "time":
        raise ValueError("metric = 'time' (the default): only the kernel evaluator measures it; write metric = 'value'")
    if task.evaluator == "kernel" and not task.baselines:
        example = f'name = "plain", file = "{task.seed_program}", language = "{task.languages[0]}"'
        raise ValueError(
            "baselines is empty: a score is the speed-up over the strongest of them; name at least one, for instance "
            f"baselines = [{{ {example} }}]"
        )
    if task.best_known is not None and task.metric != "value":
        raise ValueError("best_known: only a task with metric = 'value' has one")
    if task.best_known is not None and not task.best_known_source:
        raise ValueError("best_known_source is missing; say where best_known was published")


def _check_expressions(task: Task) -> None:
    for arg in task.args:
        try:
            axis_names([arg])
        except ShapeError as error:
            raise ValueError(f"arg {arg.name!r}: shape: {error}") from None


def _check_names(task: Task) -> None:
    axes = axis_names(task.args)
    groups: dict[str, Iterable[str]] = {
        "args": [*(arg.name for arg in task.args), *axes, task.entry],
        "workloads": [workload.name for workload in task.workloads],
        "baselines": [baseline.name for baseline in task.baselines],
        "archive": [dimension.measure for dimension in task.archive],
    }
    for key, names in groups.items():
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"{key}: the name {name!r} is used more than once; names must differ")


def _check_shapes(task: Task) -> None:
    axes = axis_names(task.args)
    for workload in task.workloads:
        if extra := [axis for axis in workload.axes if axis not in axes]:
            raise ValueError(f"workload {workload.name!r}: axis {extra[0]!r} is in no argument's shape")
        for arg in task.args:
            try:
                evaluate_shape(arg, workload.axes)
            except ShapeError as error:
                raise ValueError(f"workload {workload.name!r}, arg {arg.name!r}: {error}") from None


def _check_weights(task: Task) -> None:
    weights = [workload.weight for workload in task.search_workloads()]
    if not math.isfinite(sum(weights)) or sum(weights) <= 0:
        raise ValueError("workloads: the weights of split 'search' must be finite and not all 0")


def _check_files(task: Task) -> None:
    _check_file(task, "seed_program", task.seed_program)
    program_language(task, task.seed_program)
    for baseline in task.baselines:
        _check_file(task, f"baseline {baseline.name!r}: file", baseline.file)
    if task.evaluator == "kernel":
        _check_reference(task)
    elif ".py:" in task.evaluator:
        _check_file(task, "evaluator", task.evaluator.rpartition(":")[0])


def _check_reference(task: Task) -> None:
    """A reference lies in the task's folder or in one beside it."""
    if not task.reference_path.resolve().is_relative_to(task.folder.parent):
        raise ValueError(f"reference = {task.reference!r} lies neither in the task's folder nor in one beside it")
    if not task.reference_path.is_file():
        raise ValueError(f"reference = {task.reference!r}: no such file; evaluator = 'kernel' needs one")


def _check_file(task: Task, key: str, name: str) -> None:
    target = (task.folder / name).resolve()
    if not target.is_relative_to(task.folder):
        raise ValueError(f"{key} = {name!r} lies outside the task's folder")
    if not target.is_file():
        raise ValueError(f"{key} = {name!r}: no such file in {task.folder}")
