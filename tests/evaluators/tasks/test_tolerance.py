from __future__ import annotations

import numpy as np
import pytest

from evaluators.compare import compare_outputs
from evaluators.errors import TaskError
from evaluators.task_loading import load_task
from evaluators.tolerance import LOCK_NAME, load_lock, measure_limits, write_lock


@pytest.fixture
def frozen(folder, reference):
    """The task's folder with a lock in it."""
    write_lock(measure_limits(reference, seeds=20), folder.path)
    return folder


def test_measured_limits_come_back_from_the_file(folder, reference):
    measured = measure_limits(reference, seeds=3)
    write_lock(measured, folder.path)
    assert load_lock(load_task(folder.path)) == measured
    assert [path.name for path in folder.path.iterdir() if LOCK_NAME in path.name] == [LOCK_NAME]


def test_measuring_twice_gives_the_same_limits(reference):
    assert measure_limits(reference, seeds=3) == measure_limits(reference, seeds=3)


def test_honest_programs_pass_on_new_content_and_half_precision_does_not(frozen):
    reference = frozen.reference()
    lock = load_lock(reference.task)
    workload = reference.task.workloads[0]
    for draw in range(200):
        inputs = reference.generate(workload, "normal", np.random.default_rng([1, draw]))
        oracle, scale = reference.oracle(inputs), reference.scale(inputs)
        limits = lock.of(workload.name, "normal")
        for outputs in reference.honest_variants(inputs).values():
            assert compare_outputs(outputs, oracle, scale, limits, reference.outputs).passed
        half = reference.oracle({**inputs, "x": inputs["x"].astype(np.float16).astype(np.float32)})
        assert not compare_outputs(reference.encoded(half), oracle, scale, limits, reference.outputs).passed


def test_a_workload_of_few_rows_is_measured_on_many_where_rows_are_independent(frozen):
    assert load_lock(load_task(frozen.path)).of("m3_k1", "normal")["out"].elements == 64


def test_without_independent_rows_only_those_of_the_workload_are_measured(folder):
    lock = measure_limits(folder.reference(('ROW_AXIS = "M"\n', "")), seeds=2)
    assert lock.of("m3_k1", "normal")["out"].elements == 3


def test_the_floors_hold_where_honest_programs_make_no_error(frozen):
    limit = load_lock(load_task(frozen.path)).of("m40_k64", "zeros")["out"]
    assert (limit.max_ulp, limit.rms_ulp) == (1.0, 0.3)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("reference.py", "2 * axes", "3 * axes"),
        ("task.toml", "M = 40", "M = 41"),
        ("task.toml", 'languages = ["python"]', 'languages = ["python"]\nallowed_precision = ["bf16"]'),
    ],
)
def test_a_lock_for_something_else_is_refused_and_says_what_to_run(frozen, name, old, new):
    task = load_task(frozen.edit(name, (old, new)))
    with pytest.raises(TaskError, match=r"another reference or other workloads; run: evolve check .*rows --freeze"):
        load_lock(task)


def test_weights_and_words_do_not_invalidate_a_lock(frozen):
    edit = ("{ axes = { M = 40, K = 64 } }", '{ axes = { M = 40, K = 64 }, weight = 3, source = "a trace" }')
    load_lock(load_task(frozen.edit("task.toml", edit)))


def test_no_lock_says_what_to_run(folder):
    with pytest.raises(TaskError, match=r"no limits yet; run: evolve check .*rows --freeze"):
        load_lock(load_task(folder.path))


@pytest.mark.parametrize(
    "text", ["", "limits = 3", "[limits]\na = 1", "not toml", "reference_hash = 1\nlimits = {}\nmeasured = 2"]
)
def test_a_damaged_lock_is_one_line(folder, text):
    (folder.path / LOCK_NAME).write_text(text)
    with pytest.raises(TaskError, match="not a lock") as caught:
        load_lock(load_task(folder.path))
    assert "\n" not in str(caught.value)


def test_a_lock_without_the_asked_limits_names_them(frozen):
    with pytest.raises(TaskError, match="no limits for workload 'm9', family 'normal'"):
        load_lock(load_task(frozen.path)).of("m9", "normal")


def test_an_unwritable_folder_is_one_line(folder, reference):
    lock = measure_limits(reference, seeds=1)
    with pytest.raises(TaskError, match="limits cannot be frozen there"):
        write_lock(lock, folder.path / "missing")
