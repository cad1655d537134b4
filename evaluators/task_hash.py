"""Hashes of a task: of everything that decides a verdict, and of everything that makes inputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from evaluators.errors import TaskError
from evaluators.task import Task

DATA_FOLDER = "data"
"""Captured real inputs and outputs lie here."""
_MAX_FILES = 10_000


def verdict_files(task: Task) -> list[Path]:
    """Every file of a task folder but documentation, hidden files and what Python and editors leave behind.

    All of them, and not a chosen few, because a reference may read any file beside it. And the oracles, where the task
    shares a sibling's.
    """
    shared = (path.resolve() for path in (task.reference_path, task.device_oracle_path))
    return _files(task.folder) + [path for path in shared if _is_elsewhere(task, path)]


def _is_elsewhere(task: Task, path: Path) -> bool:
    return path.is_file() and not path.is_relative_to(task.folder.resolve())


def _files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        found += [Path(root) / name for name in files if not name.startswith(".") and not name.endswith((".md", "~"))]
        if len(found) > _MAX_FILES:
            raise TaskError(f"{folder}: more than {_MAX_FILES} files; a task folder holds one task and nothing else")
    return found


def inputs_files(task: Task) -> list[Path]:
    """The files that make inputs: the generator and captured data."""
    own = [task.reference_path.resolve()]
    if ".py:" in task.evaluator:
        own.append(task.folder / task.evaluator.split(":")[0])
    data = task.folder / DATA_FOLDER
    return [path for path in own if path.is_file()] + (_files(data) if data.is_dir() else [])


def hash_files(folder: Path, files: Iterable[Path], salt: str = "") -> str:
    """SHA-256 over names and contents of files, in an order that does not depend on the file system.

    Raises:
        TaskError: a file cannot be read.
    """
    digest = hashlib.sha256(f"{len(salt)}:{salt}".encode())
    for name, path in sorted((Path(os.path.relpath(path, folder)).as_posix(), path) for path in files):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise TaskError(f"{path}: {error.strerror}") from None
        digest.update(f"{len(name.encode())}:{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()
