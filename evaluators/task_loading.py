"""Finding and reading tasks: ``task.toml`` to :class:`~evaluators.task.Task`, every mistake one line."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from evaluators.errors import TaskError
from evaluators.shipped import shipped_folder
from evaluators.task import Task
from evaluators.task_hash import hash_files, inputs_files, verdict_files
from evaluators.task_rules import check_rules

TASK_FILE = "task.toml"
ENTRY_POINT_GROUP = "evolve.tasks"
_FROM_FOLDER = ("folder", "hash", "inputs_hash")
_NAME = re.compile(r"\w+")

__all__ = ["ENTRY_POINT_GROUP", "TASK_FILE", "find_task", "load_task", "shipped_folder"]


def find_task(name_or_path: str) -> Path:
    """A task's folder by shipped name, by another package's entry point (group ``evolve.tasks``), or by path.

    A plain name means a shipped task first; write ``./name`` for a folder of that name.

    Raises:
        TaskError: there is none.
    """
    if _NAME.fullmatch(name_or_path):
        shipped = shipped_folder("tasks") / name_or_path
        if (shipped / TASK_FILE).is_file():
            return shipped
        for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name_or_path):
            return _entry_point_folder(entry_point)
    folder = Path(name_or_path).expanduser()
    if (folder / TASK_FILE).is_file():
        return folder.resolve()
    if folder.is_dir():
        raise TaskError(f"{folder}: no {TASK_FILE} in this folder")
    if folder.name == TASK_FILE and folder.is_file():
        return folder.parent.resolve()
    known = _known_names()
    near = _nearest(name_or_path, known)
    raise TaskError(f"unknown task {name_or_path!r}{near}; known: {', '.join(known) or 'none'}")


def load_task(folder: Path) -> Task:
    """Read and check a task folder.

    Raises:
        TaskError: one line that names the file, the key and what to do.
    """
    folder = folder.resolve()
    path = folder / TASK_FILE
    table = _read_toml(path)
    for key in _FROM_FOLDER:
        if key in table:
            raise TaskError(f"{path}: unknown key {key!r}; remove it")
    _name_workloads(table)
    try:
        task = Task.model_validate({**table, "folder": folder, "hash": "", "inputs_hash": ""})
    except ValidationError as error:
        raise TaskError(f"{path}: {_first_mistake(error, table)}") from None
    check_rules(task, path)
    shape_of_inputs = json.dumps([task.model_dump(mode="json")[key] for key in ("args", "workloads")], sort_keys=True)
    return task.model_copy(
        update={
            "hash": hash_files(folder, verdict_files(task)),
            "inputs_hash": hash_files(folder, inputs_files(task), salt=shape_of_inputs),
        }
    )


def _known_names() -> list[str]:
    shipped = (path.parent.name for path in shipped_folder("tasks").glob(f"*/{TASK_FILE}"))
    return sorted({*shipped, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def _entry_point_folder(entry_point: EntryPoint) -> Path:
    """An entry point names a module in the task's folder, or a path."""
    source = f"entry point {entry_point.name!r} = {entry_point.value!r}"
    try:
        target = entry_point.load()
    except (ImportError, AttributeError) as error:
        raise TaskError(f"{source} cannot be loaded: {error}") from None
    if isinstance(target, ModuleType):
        target = Path(target.__path__[0]) if hasattr(target, "__path__") else Path(str(target.__file__)).parent
    if not isinstance(target, str | Path) or not (Path(target) / TASK_FILE).is_file():
        raise TaskError(f"{source} must be a path or a module whose folder holds {TASK_FILE}")
    return Path(target).resolve()


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TaskError(f"{path}: no such file; a task is a folder that holds a {TASK_FILE}") from None
    except OSError as error:
        raise TaskError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: not valid TOML: {error}") from None


def _name_workloads(table: dict[str, Any]) -> None:
    """Give a workload without a name one made of its axes: ``m4096_k4096``."""
    workloads = table.get("workloads")
    for workload in workloads if isinstance(workloads, list) else ():
        if isinstance(workload, dict) and "name" not in workload and isinstance(workload.get("axes"), dict):
            workload["name"] = "_".join(f"{axis.lower()}{size}" for axis, size in workload["axes"].items()) or "only"


def _nearest(name: str, candidates: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(candidates), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _first_mistake(error: ValidationError, table: dict[str, Any]) -> str:
    """One line of pydantic's errors: an unknown key first, since it often explains a missing one."""
    errors = error.errors()
    first = min(errors, key=lambda e: e["type"] != "extra_forbidden")
    where = _location(first["loc"])
    others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    match first["type"]:
        case "extra_forbidden":
            valid = [f for f in _fields_at(first["loc"][:-1]) if f not in _FROM_FOLDER]
            return f"unknown key {where!r}{_nearest(str(first['loc'][-1]), valid) or '; remove it'}{others}"
        case "missing":
            return f"key {where!r} is missing{others}"
        case "literal_error":
            expected = first["ctx"]["expected"]
            near = _nearest(str(first["input"]), re.findall(r"'([^']*)'", expected))
            return f"{where} = {first['input']!r}: must be {expected}{near}{others}"
        case _:
            return f"{where} = {_short(first['input'])}: {_reason(first)}{others}"


def _reason(detail: ErrorDetails) -> str:
    """What is wrong with one value, in TOML's words."""
    match detail["type"]:
        case "model_type" | "model_attributes_type":
            needed = ", ".join(_fields_at(detail["loc"], needed=True))
            return f"must be a table{f' with {needed}' if needed else ''}"
        case "tuple_type":
            return "must be an array"
        case "dict_type":
            return "must be a table"
        case _:
            message = detail["msg"].removeprefix("Value error, ").replace("Input should", "must")
            return message[:1].lower() + message[1:]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _location(loc: tuple[int | str, ...]) -> str:
    """``("args", 0, "dtype")`` as people write it: ``args[0].dtype``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or TASK_FILE


def _fields_at(loc: tuple[int | str, ...], *, needed: bool = False) -> list[str]:
    """The valid keys at a place of ``task.toml``, or only those that must be there."""
    schema = Task.model_json_schema()
    node: dict[str, Any] = schema
    for part in loc:
        node = node["items"] if isinstance(part, int) else node["properties"][part]
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return list(node.get("required" if needed else "properties", ()))
