from __future__ import annotations

import re

import pytest

from evaluators import check, tolerance
from evaluators.check import CheckRow, check_task
from evaluators.errors import TaskError
from evaluators.task_loading import find_task, load_task
from evaluators.tolerance import LOCK_NAME

SUM = '(_pick(inputs, rows) * inputs["x"]).sum(axis=1)}'
PAIRWISE = '"pairwise": {"out": terms.sum(axis=1, dtype=np.float32)},'

NEARLY_RIGHT = """

def mutants(inputs, rows=None):
    right = oracle(inputs, rows)["out"].astype(np.float32)
    return {"one ulp more": {"out": np.nextafter(right, np.float32(9))}}
"""


@pytest.fixture(autouse=True)
def fewer_seeds(monkeypatch):
    monkeypatch.setattr(check, "measure_limits", lambda reference: tolerance.measure_limits(reference, seeds=30))


def test_the_first_check_freezes_and_the_next_leaves_the_lock_alone(folder):
    task = load_task(folder.path)
    first = check_task(task)
    written = (folder.path / LOCK_NAME).read_bytes()
    second = check_task(first.task)
    assert (first.frozen, second.frozen) == (True, False)
    assert first.task.hash != task.hash
    assert first.task.hash == second.task.hash
    assert (folder.path / LOCK_NAME).read_bytes() == written


def test_every_mutant_is_reported_with_the_limit_that_caught_it(folder):
    rows = check_task(load_task(folder.path)).rows
    mutants = {row.subject: row.outcome for row in rows if row.subject.startswith("mutant")}
    assert {
        "mutant all zeros",
        "mutant the mean everywhere",
        "mutant sign flipped",
        "mutant stale output",
        "mutant poison left",
        "mutant one wrong row",
        "mutant one wrong tile",
        "mutant one unwritten tile",
        "mutant NaN planted",
        "mutant Inf planted",
        "mutant inputs rounded to fp16",
        "mutant inputs rounded to bf16",
        "mutant outputs rounded to fp16",
        "mutant outputs rounded to bf16",
    } <= set(mutants)
    assert all(outcome.startswith("caught: ") for outcome in mutants.values())
    assert {row.subject for row in rows if row.subject.startswith("input")} == {"input w matters", "input x matters"}
    assert {row.family for row in rows if row.subject == "variant sequential"} == {"normal", "zeros"}


def test_a_variant_less_precise_than_allowed_loosens_the_limits_until_a_mutant_passes(folder):
    loose = (
        '"half": {"out": (terms * 0 + _pick(inputs, rows) * inputs["x"].astype(np.float16)).sum(1, dtype=np.float32)},'
    )
    folder.edit("reference.py", (PAIRWISE, f"{PAIRWISE} {loose}"))
    with pytest.raises(TaskError, match="mutant 'inputs rounded to fp16' passes on workload 'm40_k64': max error"):
        check_task(load_task(folder.path))
    assert not (folder.path / LOCK_NAME).exists()


def test_a_mutant_of_the_task_that_passes_makes_it_invalid(folder):
    path = folder.path / "reference.py"
    path.write_text(path.read_text() + NEARLY_RIGHT)
    with pytest.raises(TaskError, match=r"mutant 'one ulp more' passes on workload 'm40_k64': max error .* limit"):
        check_task(load_task(folder.path))


def test_an_input_that_does_not_matter_is_named(folder):
    folder.edit("reference.py", (SUM, '(_pick(inputs, rows) * (1 + 0 * inputs["x"])).sum(axis=1)}'))
    folder.edit("reference.py", ('astype(np.float32) * inputs["x"]', 'astype(np.float32) * (1 + 0 * inputs["x"])'))
    with pytest.raises(TaskError, match="do not depend on 'x'"):
        check_task(load_task(folder.path))


def test_a_limit_tightened_by_hand_fails_an_honest_variant(folder):
    check_task(load_task(folder.path))
    path = folder.path / LOCK_NAME
    path.write_text(re.sub(r"max_ulp = [0-9.]+, rms_ulp", "max_ulp = 0.001, rms_ulp", path.read_text()))
    with pytest.raises(TaskError, match=r"honest variant '.*' fails on workload"):
        check_task(load_task(folder.path))


def test_a_changed_reference_is_not_silently_frozen_again(folder):
    check_task(load_task(folder.path))
    folder.edit("reference.py", ("2 * axes", "3 * axes"))
    with pytest.raises(TaskError, match="--freeze"):
        check_task(load_task(folder.path))
    assert check_task(load_task(folder.path), freeze=True).frozen


def test_programs_are_judged_last_with_the_frozen_task(folder):
    seen = []

    def programs(task):
        seen.append(task.hash)
        return [CheckRow("baseline plain", "m40_k64", "normal", "passes")]

    report = check_task(load_task(folder.path), programs=programs)
    assert seen == [report.task.hash]
    assert report.rows[-1].subject == "baseline plain"


def test_a_task_with_its_own_evaluator_has_no_limits_to_freeze():
    report = check_task(load_task(find_task("circle_packing")))
    assert (report.lock, report.frozen, report.rows) == (None, False, ())
