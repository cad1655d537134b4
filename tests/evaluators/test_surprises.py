"""Surprises: what a process has seen comes to it no second time, and all candidates share what takes long to make."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from evaluators import surprise
from evaluators.check_set import CheckSet
from evaluators.reference import load_reference
from evaluators.surprise import ProcessSurprises, Surprises
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


def process(surprises, seed):
    return ProcessSurprises(surprises, np.random.default_rng(seed))


def drawn(surprises, workload, count, seed):
    one = process(surprises, seed)
    found = []
    for _ in range(count):
        one.get_ready(workload, len(SLOTS), trials=False)
        found += one.draw(workload, SLOTS)
    return found


def tried(one, workload, slots):
    one.get_ready(workload, len(slots), trials=True)
    return one.trial(workload, slots)


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


def test_a_stock_that_was_drafted_ahead_is_the_one_that_processes_get(stocked, monkeypatch):
    reference, _, surprises = stocked
    workload = reference.task.search_workloads()[0]
    asked = []
    oracle = type(reference).oracle
    with monkeypatch.context() as patch:
        patch.setattr(type(reference), "oracle", lambda *_: asked.append(1))
        surprises.draft([workload])
        surprises.draft([workload])  # as for the next confirmation
    assert asked == []  # it may compute on a device that is another candidate's now
    monkeypatch.setattr(type(reference), "generate", None)  # fails if it is asked for anything
    one, other = (drawn(surprises, workload, len(reference.families), seed) for seed in (3, 4))
    assert {s.case.family: s.case for s in one} == {s.case.family: s.case for s in other}
    for found in one:
        np.testing.assert_array_equal(
            oracle(reference, found.case.inputs, found.case.rows)["out"], found.case.oracle["out"]
        )


def test_drafting_and_taking_from_a_stock_at_once_makes_every_input_once(stocked, monkeypatch):
    """A confirmation is drawn up while another program has the device: kept inputs lie in files, written once."""
    reference, _, surprises = stocked
    workload = reference.task.search_workloads()[0]
    made = []
    generate = type(reference).generate
    monkeypatch.setattr(
        type(reference), "generate", lambda self, w, family, rng: made.append(family) or generate(self, w, family, rng)
    )
    with ThreadPoolExecutor(4) as pool:
        drafts = [pool.submit(surprises.draft, [workload]) for _ in range(2)]
        taken = [pool.submit(surprises.stocked, workload, list(reference.families)) for _ in range(2)]
    assert all(draft.result() is None for draft in drafts)
    first, second = (future.result() for future in taken)
    assert sorted(made) == sorted(reference.families)
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_a_process_with_a_reserve_waits_for_no_input_and_shares_none_with_another(stocked, monkeypatch):
    reference, _, surprises = stocked
    workload, families = reference.task.search_workloads()[0], len(reference.families)
    surprises.make([workload])
    rounds = families + 3
    one, other = process(surprises, 5), process(surprises, 6)
    for taker in (one, other):
        taker.supply(surprises.reserve([(workload, rounds)]))
    monkeypatch.setattr(type(reference), "generate", None)  # fails if it is asked for anything
    seen = []
    for taker in (one, other):
        found = []
        for _ in range(rounds):  # each of them has a surprise here
            taker.get_ready(workload, len(SLOTS), trials=False)
            found += taker.draw(workload, SLOTS)
        assert len({id(surprise.case) for surprise in found}) == rounds
        seen.append({id(surprise.case) for surprise in found[families:]})
    assert not seen[0] & seen[1]


def test_what_a_reserve_lacks_is_made(stocked):
    reference, _, surprises = stocked
    workload, families = reference.task.search_workloads()[0], len(reference.families)
    one = process(surprises, 7)
    one.supply(surprises.reserve([(workload, families + 1)]))
    found = []
    for _ in range(families + 4):
        one.get_ready(workload, len(SLOTS), trials=False)
        found += one.draw(workload, SLOTS)
    assert len({id(surprise.case) for surprise in found}) == families + 4


def test_trials_have_as_many_families_as_there_are_calls_until_the_process_has_had_them_all(stocked):
    reference, _, surprises = stocked
    workload, one = reference.task.search_workloads()[0], process(surprises, 5)
    slots = SLOTS[: len(reference.families) - 2]
    trials = [tried(one, workload, slots) for _ in range(3)]
    given = [surprise.case for trial in trials for surprise in trial]
    assert sorted(surprise.slots[0] for surprise in trials[0]) == slots
    assert len({id(case) for case in given}) == len(given)
    assert {case.family for case in given} | {one._next[workload.name].family} == set(reference.families)


@pytest.mark.parametrize("large", [True, False])
def test_nothing_is_made_in_the_pause_before_a_surprise_that_would_not_be_made_otherwise(tmp_path, monkeypatch, large):
    """A process reads the clock: a pause that is longer must not tell of the round that follows it."""
    monkeypatch.setattr(surprise, "SMALL_ELEMENTS", 0 if large else 1 << 30)
    reference = load_reference(load_task(SOFTMAX))
    surprises = Surprises(reference, CheckSet(reference, tmp_path, np.random.default_rng(1)))
    workload, one = reference.task.search_workloads()[0], process(surprises, 8)
    for _ in range(20):
        one.get_ready(workload, len(SLOTS), trials=True)
        with monkeypatch.context() as patch:
            patch.setattr(CheckSet, "cases", None)  # fails if it is asked for one
            one.draw(workload, SLOTS)
            if one._rng.random() < 0.5:
                one.trial(workload, SLOTS)
