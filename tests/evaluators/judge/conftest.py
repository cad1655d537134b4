"""One small time-scored task and one small value-scored one, and live judges for them, shared by this folder's tests."""

from pathlib import Path

import pytest

from evaluators.check import check_task
from evaluators.judge import open_judge
from evaluators.task_loading import load_task

DOUBLE_TOML = """
name = "double"
languages = ["cpp", "python"]
entry = "double_it"
threads = 1
build_flags = ["-O3", "-std=c++17"]
flag_choices = [["", "-funroll-loops"]]
seed_program = "seed.cpp"
args = [
  { name = "x", role = "in", dtype = "fp32", shape = ["N"] },
  { name = "out", role = "out", dtype = "fp32", shape = ["N"] },
]
workloads = [
  { name = "large", axes = { N = 16384 } },
  { name = "held", axes = { N = 12000 }, split = "heldout" },
  { name = "one", axes = { N = 1 }, split = "edge" },
]
baselines = [{ name = "plain", file = "plain.cpp", language = "cpp" }]
[limits]
build_s = 30
import_s = 3
prepare_s = 2
call_s = 1
memory_bytes = 268435456
"""
DOUBLE_REFERENCE = """
import numpy as np

FAMILIES = ("normal", "zeros", "infinite")
ROW_AXIS = "N"


def generate(axes, family, rng):
    x = rng.standard_normal(axes["N"], dtype=np.float32)
    if family == "zeros":
        x[:] = 0
    if family == "infinite":
        x[rng.integers(len(x))] = np.inf
    return {"x": x}


def oracle(inputs, rows=None):
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return {"out": np.sqrt(np.abs(x.astype(np.float64))) * 2}


def honest_variants(inputs, rows=None):
    x = inputs["x"] if rows is None else inputs["x"][rows]
    root = np.sqrt(np.abs(x))
    return {"product": {"out": root * np.float32(2)}, "sum": {"out": root + root}}


def traffic_bytes(axes):
    return 8 * axes["N"]


def operations(axes):
    return 2 * axes["N"]
"""
DOUBLE_CPP = """
#include <cmath>
#include <cstdint>
extern "C" void double_it(const float* x, float* out, int64_t N) {
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}
"""
DOUBLE_PY = """
import numpy as np
def double_it(x, out, N):
    np.multiply(np.sqrt(np.abs(x)), np.float32(2), out=out)
"""
POINT_TOML = """
name = "point"
metric = "value"
evaluator = "evaluator.py:evaluate"
languages = ["python"]
entry = "point"
seed_program = "seed.py"
args = [{ name = "out", role = "out", dtype = "fp64", shape = [2] }]
workloads = [{ name = "only", axes = {} }]
[limits]
import_s = 3
prepare_s = 2
call_s = 1
memory_bytes = 268435456
"""
POINT_EVALUATOR = """
from evaluators.evaluation import Status


def evaluate(context):
    session = context.session(context.build(context.source))
    session.prepare(context.task.workloads[0])
    x, y = session.call({})["out"]
    if not x * x + y * y <= 1:
        raise context.fail(Status.WRONG_VALUES, f"({x}, {y}) lies outside the disc")
    context.artifact("answer", f"{x} {y}")
    return {"score": x + y, "x": x}
"""
POINT_PY = "def point(out):\n    out[:] = 0.5\n"


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


@pytest.fixture(scope="session")
def double_task(tmp_path_factory):
    folder = write(
        tmp_path_factory.mktemp("tasks") / "double",
        task__toml=DOUBLE_TOML,
        reference__py=DOUBLE_REFERENCE,
        seed__cpp=DOUBLE_CPP,
        plain__cpp=DOUBLE_CPP,
    )
    check_task(load_task(folder), freeze=True)
    return load_task(folder)


@pytest.fixture(scope="session")
def point_task(tmp_path_factory):
    folder = write(
        tmp_path_factory.mktemp("tasks") / "point",
        task__toml=POINT_TOML,
        evaluator__py=POINT_EVALUATOR,
        seed__py=POINT_PY,
    )
    return load_task(folder)


@pytest.fixture(scope="session")
def double_judge(double_task):
    with open_judge(double_task, sandbox="full", lanes=1) as (judge, _):
        judge.calibrate()
        yield judge


@pytest.fixture(scope="session")
def point_judge(point_task):
    with open_judge(point_task, sandbox="full", lanes=2) as (judge, _):
        yield judge
