"""Surprises: what a process has seen comes to it no second time, and all candidates share what takes long to make."""

from pathlib import Path

import numpy as np
import pytest

from evaluators import surprise
from evaluators.check_set import CheckSet
from evaluators.reference import load_reference
from evaluators.surprise import Surprises
from evaluators.task_loading import load_task

SOFTMAX = Path(__file__).parents[1] / "data" / "softmax_rows"
SLOTS = [0, 1, 2, 3]


@pytest.fixture
def stocked(tmp_path, monkeypatch):
    """Everything counts as large, and every round has a surprise."""
    monkeypatch.setattr(surprise, "SMALL_ELEMENTS", 0)
    monkeypatch.setattr(surprise, "SHARE_LARGE", 1.0)
    reference = load_reference(load_task(SOFTMAX))
    checks = CheckSet(reference, tmp_path, np.random.default_rng(1))
    return reference, checks, Surprises(reference, checks)


def drawn(surprises, workload, count, seed):
    seen = set()
    rng = np.random.default_rng(seed)
    return [surprises.draw(workload, SLOTS, rng, seen) for _ in range(count)]


def test_a_process_gets_each_input_once(stocked):
    reference, _, surprises = stocked
    workload = reference.task.search_workloads()[0]
    found = drawn(surprises, workload, len(reference.families) + 3, seed=2)
    assert sorted(one.case.family for one in found[: len(reference.families)]) == sorted(reference.families)
    contents = {one.case.inputs["x"].tobytes() for one in found if one.case.family not in ("zeros", "negative_zeros")}
    repeated = sum(one.case.family not in ("zeros", "negative_zeros") for one in found)
    assert len(contents) == repeated
    assert all(len(set(one.slots)) == 2 for one in found)


def test_the_next_process_gets_the_same_stock_and_never_what_programs_are_checked_on(stocked):
    reference, checks, surprises = stocked
    workload = reference.task.search_workloads()[0]
    ordinary = reference.families[0]
    one, other = (
        {s.case.family: s.case for s in drawn(surprises, workload, len(reference.families), seed)} for seed in (3, 4)
    )
    assert all(one[family] is other[family] for family in reference.families)
    assert not np.array_equal(one[ordinary].inputs["x"], checks.case(workload, ordinary).inputs["x"])


def test_what_is_drawn_for_a_confirmation_is_forgotten_after_one_look(stocked):
    reference, checks, _ = stocked
    workload = reference.task.search_workloads()[0]
    fresh = checks.drawn([workload])
    families = fresh.families(workload)
    assert families == fresh.families(workload)
    first = fresh.cases(workload, families)
    assert not np.array_equal(first[0].inputs["x"], fresh.cases(workload, families)[0].inputs["x"])


def test_what_is_drawn_ahead_asks_no_oracle(stocked, monkeypatch):
    reference, checks, _ = stocked
    asked = []
    monkeypatch.setattr(
        type(reference),
        "oracle",
        lambda self, inputs, rows=None: asked.append(rows) or self.encoded({"out": inputs["x"]}),
    )
    workload = reference.task.search_workloads()[0]
    fresh = checks.drawn([workload])
    assert asked == []  # it may compute on a device that is another candidate's now
    fresh.cases(workload, fresh.families(workload))
    assert len(asked) == len(fresh.families(workload))
