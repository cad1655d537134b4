"""A small task on disk, right in every respect, for tests to break in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.reference import Reference, load_reference
from evaluators.task_loading import load_task

TASK = """\
name = "rows"
languages = ["python"]
entry = "rows"
args = [
  { name = "w", role = "in", dtype = "fp32", shape = ["M", "K"] },
  { name = "x", role = "in", dtype = "fp32", shape = ["K"] },
  { name = "out", role = "out", dtype = "fp32", shape = ["M"] },
]
workloads = [
  { axes = { M = 40, K = 64 } },
  { axes = { M = 3, K = 1 }, split = "edge" },
]
seed_program = "seed.py"
baselines = [{ name = "plain", file = "seed.py", language = "python" }]
"""

REFERENCE = """\
import numpy as np

FAMILIES = ("normal", "zeros")
ROW_AXIS = "M"


def generate(axes, family, rng):
    w = rng.standard_normal((axes["M"], axes["K"]), dtype=np.float32)
    x = rng.standard_normal(axes["K"], dtype=np.float32)
    return {"w": w, "x": x * np.float32(family != "zeros")}


def _pick(inputs, rows):
    return (inputs["w"] if rows is None else inputs["w"][rows]).astype(np.float64)


def oracle(inputs, rows=None):
    return {"out": (_pick(inputs, rows) * inputs["x"]).sum(axis=1)}


def scale(inputs, rows=None):
    return {"out": np.abs(_pick(inputs, rows) * inputs["x"]).sum(axis=1)}


def honest_variants(inputs, rows=None):
    terms = _pick(inputs, rows).astype(np.float32) * inputs["x"]
    return {
        "sequential": {"out": np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]},
        "pairwise": {"out": terms.sum(axis=1, dtype=np.float32)},
    }


def traffic_bytes(axes):
    return 4 * (axes["M"] * axes["K"] + axes["K"] + axes["M"])


def operations(axes):
    return 2 * axes["M"] * axes["K"]
"""

SEED = """\
def rows(w, x, out, M, K):
    out[:] = w @ x
"""

Edit = tuple[str, str]


class TaskFolder:
    """Writes the task, with texts replaced."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        folder.mkdir()
        for name, text in (("task.toml", TASK), ("reference.py", REFERENCE), ("seed.py", SEED)):
            (folder / name).write_text(text)

    def edit(self, name: str, *edits: Edit) -> Path:
        path = self.path / name
        text = path.read_text()
        for old, new in edits:
            assert old in text, f"{old!r} is not in {name}"
            text = text.replace(old, new)
        path.write_text(text)
        return self.path

    def reference(self, *edits: Edit) -> Reference:
        return load_reference(load_task(self.edit("reference.py", *edits)))


@pytest.fixture
def folder(tmp_path: Path) -> TaskFolder:
    return TaskFolder(tmp_path / "rows")


@pytest.fixture
def reference(folder: TaskFolder) -> Reference:
    return folder.reference()
