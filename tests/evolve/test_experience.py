"""What a run remembers of itself: failures, lessons with their evidence, and what a prompt is made of."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluators.evaluation import Interval, Status, Timed
from evolve.experience import Bounds, Experience, Outcome, gain, grouped
from evolve.lessons import lessons
from evolve.prompt_facts import RunFacts, diverse
from evolve.proposers.llm_parts import Subject
from evolve.rewards import Rewards
from evolve.settings import Caps
from evolve.testing import FakeJudge, fake_source, fake_task
from evolve.types import Program, ProposeContext
from tests.evolve.searching import World, settings


def outcome(number: int, score: float | None = 1.0, *, parent: int = 1, **values: object) -> Outcome:
    defaults: dict[str, object] = {
        "number": number,
        "island": 0,
        "parents": (parent,),
        "operator": "diff",
        "proposer": "llm",
        "status": Status.PASSED if score is not None else Status.BUILD_ERROR,
        "score": score,
        "message": "" if score is not None else "no such intrinsic",
        "note": f"idea {number}",
        "changes": {},
        "bounds": None if score is None else Bounds(score, score),
    }
    return Outcome(**{**defaults, **values})  # type: ignore[arg-type]


def tuned(number: int, score: float, parent: int, **changes: str) -> Outcome:
    return outcome(number, score, parent=parent, operator="tune", proposer="tuner", note="", changes=changes)


@pytest.fixture
def task(tmp_path: Path):
    return fake_task(tmp_path / "task", metric="time")


def experience(task, *outcomes: Outcome) -> Experience:
    return Experience(task, [outcome(1, 1.0, operator="seed", proposer="seed", parents=()), *outcomes])


def texts(of: Experience) -> dict[str, tuple[int, int]]:
    return {lesson.text: (lesson.supported, lesson.contradicted) for lesson in lessons(of)}


class TestLessons:
    def test_a_constant_is_counted_over_pairs_that_differ_in_it_alone(self, task) -> None:
        found = texts(
            experience(
                task,
                tuned(2, 1.5, 1, UNROLL="1 -> 4"),
                tuned(3, 1.2, 2, UNROLL="4 -> 1"),
                tuned(4, 1.1, 2, UNROLL="1 -> 4"),
                tuned(5, 3.0, 1, UNROLL="1 -> 4", LANES="2 -> 8"),
            )
        )
        assert found == {"UNROLL: 1 -> 4, all else equal, is better": (2, 1)}

    def test_a_constant_that_makes_it_slower_is_said_so(self, task) -> None:
        found = texts(experience(task, tuned(2, 0.5, 1, B="1 -> 9"), tuned(3, 0.7, 1, B="1 -> 9")))
        assert found == {"B: 1 -> 9, all else equal, is worse": (2, 0)}

    def test_what_was_not_told_apart_is_no_evidence_however_large_it_looks(self, task) -> None:
        """The seed's interval is its score alone; both reach down, or up, to it."""
        wide = [replace(tuned(2, 1.3, 1, B="1 -> 9"), bounds=Bounds(1.0, 1.6)), tuned(3, 1.0, 1, B="1 -> 9")]
        wide.append(replace(tuned(4, 0.8, 1, B="1 -> 9"), bounds=Bounds(0.7, 1.1)))
        assert texts(experience(task, *wide)) == {}

    def test_a_small_difference_that_was_shown_is_evidence(self, task) -> None:
        shown = [replace(tuned(n, 1.01, 1, B="1 -> 9"), bounds=Bounds(1.005, 1.02)) for n in (2, 3)]
        assert texts(experience(task, *shown)) == {"B: 1 -> 9, all else equal, is better": (2, 0)}

    def test_a_glance_shows_no_gain_and_that_a_program_is_worse(self, task) -> None:
        seen = [replace(tuned(n, 0.5, 1, B="1 -> 9"), bounds=Bounds(0.4, 0.6, 0.87)) for n in (2, 3)]
        assert texts(experience(task, *seen)) == {"B: 1 -> 9, all else equal, is worse": (2, 0)}
        gained = [replace(tuned(n, 1.5, 1, B="1 -> 9"), bounds=Bounds(1.4, 1.6, 0.87)) for n in (2, 3)]
        assert texts(experience(task, *gained)) == {}
        better = [replace(tuned(n, 1.0, 2, A="1 -> 9"), bounds=Bounds(0.9, 1.1)) for n in (4, 5)]
        assert texts(experience(task, seen[0], *better)) == {}, "its parent was only glanced at"

    def test_a_duel_with_the_parent_says_more_than_two_intervals(self, task) -> None:
        won = replace(outcome(2, 1.5, note="prefetch"), bounds=Bounds(0.9, 2.0), margins={1: 1.25})
        lost = replace(outcome(3, 1.1, note="unroll"), bounds=Bounds(0.9, 2.0), margins={1: 0.9})
        open_ = replace(outcome(4, 1.4, note="align"), bounds=Bounds(0.9, 2.0))
        found = texts(experience(task, won, lost, open_))
        assert found == {"This change gained 25 % over the parent: prefetch": (1, 0)}

    def test_one_pair_is_no_lesson(self, task) -> None:
        assert texts(experience(task, tuned(2, 2.0, 1, B="1 -> 9"))) == {}

    def test_what_gained_is_told_with_how_often(self, task) -> None:
        found = texts(
            experience(task, outcome(2, 1.5, note="prefetch"), outcome(3, 0.9, note="prefetch"), outcome(4, 0.5))
        )
        assert found == {"This change gained 50 % over the parent: prefetch": (1, 1)}

    def test_a_kind_of_change_that_mostly_fails_says_why(self, task) -> None:
        tried = [outcome(n, None, operator="rewrite") for n in range(2, 5)]
        tried += [outcome(5, None, operator="rewrite", status=Status.TIMEOUT), outcome(6, 0.9, operator="rewrite")]
        text = "most programs by rewrite fail, mostly with build_error (3 of 4): check that first"
        assert texts(experience(task, *tried)) == {text: (4, 1)}


class TestFailures:
    def test_those_of_the_parent_come_first_and_the_same_one_once(self, task) -> None:
        of = experience(task, outcome(2, None, parent=7), outcome(3, None, parent=1), outcome(4, None, parent=1))
        assert [f.number for f in of.failures(7)] == [2, 4, 3]
        assert [(f.number, times) for f, times in grouped(of.failures(7))] == [(2, 3)]

    def test_a_program_is_mended_once_and_only_what_its_author_may_know_is_mended(self, task) -> None:
        of = experience(
            task,
            outcome(2, None),
            outcome(3, None, island=1),
            outcome(4, None, late=True),
            outcome(5, None, status=Status.CHEATING),
            outcome(6, None, operator="repair"),
            outcome(7, None),
            outcome(8, 1.0, parent=7, operator="repair"),
        )
        assert [f.number for f in of.repairable(0)] == [2]
        of.work_on(2)
        assert of.repairable(0) == []


@pytest.mark.parametrize(
    ("score", "before", "expected"),
    [(2.0, 1.0, math.log(2)), (1.0, 1.0, 0.0), (-1.0, -2.0, 0.5), (0.0, -1.0, 1.0), (-3.0, -1.0, -2 / 3)],
)
def test_gains_exist_for_scores_of_any_sign(score: float, before: float, expected: float) -> None:
    assert gain(score, before, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize("timed", [False, True])
async def test_what_the_database_says_equals_what_was_seen(tmp_path: Path, timed: bool) -> None:
    world = World(tmp_path, settings(Caps(candidates=25)), judge=FakeJudge(timed=timed, glance_below=1.05))
    with world.create() as run:
        live = run.remember()
        await world.search(run)
        stored = Experience.stored(run.task, run.storage)
    assert len(live.outcomes) > 10
    assert any(outcome.margins for outcome in live.outcomes) == timed
    assert stored.outcomes == live.outcomes
    assert {outcome.bounds.level for outcome in live.outcomes if outcome.bounds} == ({0.87, 0.99} if timed else set())


async def judged(tmp_path: Path, *sources: str) -> World:
    """A run in which the seed's children are these."""
    left = list(sources)
    world = World(tmp_path, settings(Caps(candidates=1 + len(sources)), islands=1), judge=FakeJudge())
    world.proposer.make = lambda context: left.pop(0)
    await world.run()
    return world


async def test_inspirations_of_another_structure_come_before_those_with_other_constants(tmp_path: Path) -> None:
    constant = "A = {}  # tune: 1, 2, 3\n"
    world = await judged(
        tmp_path,
        fake_source(1.1, text=constant.format(1)),
        fake_source(1.2, text=constant.format(2)).replace("1.2", "1.1"),
        fake_source(1.3, text="for x in y: pass"),
    )
    with world.view() as view:
        programs = [view.program(n) for n in (2, 3, 4)]
    assert [p.number for p in diverse(programs[0], [programs[1], programs[2]])] == [4, 3]


async def test_a_prompt_does_not_tell_what_failed_a_confirmation_or_gave_a_cheat_away(tmp_path: Path) -> None:
    world = await judged(tmp_path, fake_source(0.5, status=Status.CHEATING))
    with world.reopen() as run:
        of = run.remember()
        of.add(outcome(90, None, late=True, status=Status.WRONG_VALUES, message="wrong on the secret workload"))
        facts = RunFacts(run.task, of, run.program)
        parent = run.program(1)
        context = ProposeContext(run.task, 9, 0, parent, (), np.random.default_rng(0))
        notes = facts.facts(context, facts.subject(context, context.rng)).failures
    said = {note.status: note.message for note in notes}
    assert said["cheating"] == "it did not do the work"
    assert said["wrong_values"] == "it failed when it was confirmed"


async def test_a_draft_that_nobody_is_asked_for_uses_up_no_attempt_to_mend(tmp_path: Path) -> None:
    world = await judged(tmp_path, fake_source(0.5, status=Status.RUNTIME_ERROR))
    with world.reopen() as run:
        facts = RunFacts(run.task, run.remember(), run.program, repair=1.0)
        context = ProposeContext(run.task, 9, 0, run.program(1), (), np.random.default_rng(0))
        drafted = [facts.subject(context, context.rng) for _ in range(2)]
        facts.begin(drafted[-1])
        after = facts.subject(context, context.rng)
    assert [subject.parent.number for subject in (*drafted, after)] == [2, 2, 1]


async def test_what_is_to_be_mended_is_not_listed_beside_itself(tmp_path: Path) -> None:
    broken = [fake_source(0.5, status=status) for status in (Status.RUNTIME_ERROR, Status.BUILD_ERROR)]
    world = await judged(tmp_path, *broken)
    with world.reopen() as run:
        context = ProposeContext(run.task, 9, 0, run.program(2), (), np.random.default_rng(0))
        told = RunFacts(run.task, run.remember(), run.program).facts(context, Subject(run.program(2), "python"))
    assert told.parent.status == "runtime_error"
    assert [note.status for note in told.failures] == ["build_error"]


async def test_a_mended_program_gains_over_the_last_ancestor_that_passed(tmp_path: Path) -> None:
    world = await judged(tmp_path, fake_source(0.5, status=Status.BUILD_ERROR))
    with world.view() as view:
        seed, broken = view.program(1), view.program(2)
        mended = replace(seed, number=3, parents=(2,), evaluation=seed.evaluation.model_copy(update={"score": 2.0}))
        mended = replace(mended, confirmation=None)
        rewards = Rewards(world.task, view.storage, {1: seed, 2: broken}.__getitem__)
        reward = rewards.reward(mended)
        again = rewards.reward(replace(mended, duplicate_of=1))
    assert reward.gain == pytest.approx(math.log(2.0))
    assert reward.device_s == seed.evaluation.cost.device_s
    assert again.gain == 0.0


async def test_a_speed_up_pays_where_intervals_or_a_duel_show_it(tmp_path: Path) -> None:
    """By the score alone each of these is 20 % faster than its parent."""
    world = World(tmp_path, settings(Caps(candidates=2), islands=1), judge=FakeJudge(timed=True))
    world.proposer.make = lambda context: fake_source(1.015)
    await world.run()
    with world.view() as view:
        seed, child = view.program(1), view.program(2)
        assert child.evaluation is not None
        assert isinstance(child.evaluation.timing, Timed)

        def measured(number: int, low: float, high: float, level: float = 0.99) -> Program:
            interval = Interval(low=low, estimate=1.2, high=high, level=level)
            timing = child.evaluation.timing.model_copy(update={"speedup": interval})
            verdict = child.evaluation.model_copy(update={"score": 1.2, "timing": timing})
            return replace(child, number=number, parents=(1,), evaluation=verdict, confirmation=None)

        rewards = Rewards(world.task, view.storage, {1: seed}.__getitem__)
        assert rewards.reward(measured(7, 1.1, 1.3)).gain == pytest.approx(math.log(1.2))
        assert rewards.reward(measured(7, 1.005, 1.4)).gain == 0.0, "the parent may be as fast"
        assert rewards.reward(measured(7, 1.1, 1.3, level=0.87)).gain == 0.0, "seen at a glance"
        (duel,) = view.duels(2)[:1]
        assert duel[1].ratio is not None
        assert rewards.reward(measured(2, 0.9, 1.4)).gain == pytest.approx(math.log(duel[1].ratio.estimate))
