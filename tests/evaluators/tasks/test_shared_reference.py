"""A task may take the reference of a folder beside it, and a reference may speak in plain numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from evaluators.check import check_task
from evaluators.errors import TaskError
from evaluators.reference import load_reference
from evaluators.task_loading import load_task
from evaluators.tolerance import COLUMNS, load_lock, measure_limits
from tests.evaluators.tasks.conftest import TaskFolder

SHARE = ('seed_program = "seed.py"\n', 'seed_program = "seed.py"\nreference = "../rows/reference.py"\n')


@pytest.fixture
def sharing(folder, tmp_path):
    """A second task that has no reference of its own."""
    other = TaskFolder(tmp_path / "others")
    (other.path / "reference.py").unlink()
    other.edit("task.toml", SHARE)
    return other


def test_a_shared_reference_is_loaded_vetted_and_locked(sharing):
    report = check_task(load_task(sharing.path))
    assert report.lock == sharing.path / "tolerance.lock"
    assert load_lock(load_task(sharing.path)).measured["seeds"] == 100


def test_a_change_of_the_shared_reference_changes_both_hashes_and_voids_the_lock(folder, sharing):
    check_task(load_task(sharing.path))
    before = load_task(sharing.path)
    folder.edit("reference.py", ("import numpy as np", "import numpy as np  # changed"))
    after = load_task(sharing.path)
    assert before.hash != after.hash
    assert before.inputs_hash != after.inputs_hash
    with pytest.raises(TaskError, match="measured for another reference"):
        load_lock(after)


@pytest.mark.parametrize(
    ("path", "words"), [("../../reference.py", "nor in one beside it"), ("../rows/lost.py", "no such file")]
)
def test_a_reference_elsewhere_is_refused(sharing, path, words):
    with pytest.raises(TaskError, match=re.escape(words)):
        load_task(sharing.edit("task.toml", ("../rows/reference.py", path)))


def test_numbers_are_rounded_to_a_type_that_numpy_lacks(folder):
    task = load_task(
        folder.edit("task.toml", ('name = "x", role = "in", dtype = "fp32"', 'name = "x", role = "in", dtype = "bf16"'))
    )
    made = load_reference(task).generate(task.workloads[0], "normal", np.random.default_rng(0))
    assert made["x"].dtype == np.uint16
    assert made["w"].dtype == np.float32


def test_what_must_be_moved_is_every_argument_once_where_the_reference_does_not_say(folder):
    said = folder.reference()
    left_out = folder.reference(("def traffic_bytes(axes):", "def _unused(axes):"))
    for workload in said.task.workloads:
        assert left_out.traffic_bytes(workload) == said.traffic_bytes(workload)


def test_limits_are_measured_on_few_columns_where_those_are_independent(folder):
    folder.edit(
        "task.toml", ('shape = ["M"] }', 'shape = ["M", "N"] }'), ("M = 40, K = 64", "M = 40, K = 64, N = 1000")
    )
    folder.edit("task.toml", ("M = 3, K = 1", "M = 3, K = 1, N = 2"))
    wide = (
        ('"out": (_pick(inputs, rows) * inputs["x"]).sum(axis=1)}', '"out": np.zeros((64, WIDTHS[0]))}'),
        ('FAMILIES = ("normal", "zeros")', 'FAMILIES = ("normal", "zeros")\nCOLUMN_AXIS = "N"\nWIDTHS = [0]'),
        ("def generate(axes, family, rng):", 'def generate(axes, family, rng):\n    WIDTHS[:] = [axes["N"]]'),
        ('np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]', "np.zeros((64, WIDTHS[0]), np.float32)"),
        ("terms.sum(axis=1, dtype=np.float32)", "np.zeros((64, WIDTHS[0]), np.float32)"),
    )  # fmt: skip
    lock = measure_limits(folder.reference(*wide), seeds=2)
    assert lock.limits["m40_k64_n1000"]["normal"]["out"].elements == 64 * COLUMNS
    assert lock.measured["columns"] == COLUMNS
