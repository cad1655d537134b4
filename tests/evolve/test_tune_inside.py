"""Structures are tuned before they are compared: which, at what cost, to whose credit, and what a crash leaves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from evaluators.evaluation import Status
from evolve.budget import Charge
from evolve.settings import Caps, RunSettings
from evolve.testing import FakeJudge, FakeProposer, fake_source
from evolve.types import AddStatus, Program, ProgramState, ProposeContext, StopReason
from tests.evolve.searching import World, history, settings
from tests.evolve.test_resume import crash_at

GAINS = "1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0"


def structure(gain: float = 1.25, text: str = "", status: str = "passed", choices: str = GAINS) -> str:
    """A program whose score is its tunable's value."""
    return f"# fake: score=GAIN status={status}\n{text}\nGAIN = {gain}  # tune: {choices}\n"


def tuned(caps: Caps, **changes: Any) -> RunSettings:
    return settings(caps, **{"tune_inside": 3, "tune_inside_from": ("fake",), "islands": 1, **changes})


def world_of(folder: Path, *sources: str, caps: Caps | None = None, **changes: Any) -> World:
    """One structure after another is proposed; then there is nothing more."""
    left = list(sources)
    proposer = FakeProposer(lambda context: left.pop(0) if left else None)
    search = {"give_up_after": 1, **changes}
    return World(folder, tuned(caps or Caps(), **search), proposer=proposer)


def score(program: Program) -> float:
    assert program.score is not None
    return program.score


class TestWhatHappens:
    async def test_the_best_of_a_structure_and_its_variants_is_compared(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure())
        await world.run()
        _, new, *variants = world.programs()
        assert [p.variant_of for p in variants] == [new.number] * 3
        assert {(p.operator, p.proposer, p.parents, p.island, p.generation) for p in variants} == {
            ("tune", "tuner", (new.number,), new.island, new.generation + 1)
        }
        assert len({score(p) for p in (new, *variants)}) == 4
        winner = max(variants, key=score)
        with world.view() as view:
            assert view.record.best == winner.number
            assert {cell.program for cell in view.storage.cells()} == {winner.number}
        placements = {p.number: p.placement for p in (new, *variants)}
        assert placements.pop(winner.number) is AddStatus.IMPROVE
        assert set(placements.values()) == {AddStatus.NOT_ADDED}
        assert all(p.state is ProgramState.FINISHED for p in world.programs())
        assert len(world.judge.confirmed) == 2, "the seed and the winner: nobody else was a contender"

    async def test_the_structure_itself_may_be_the_best(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure(3.0))
        await world.run()
        with world.view() as view:
            assert view.record.best == 2
        assert [p.placement for p in world.programs()[2:]] == [AddStatus.NOT_ADDED] * 3

    async def test_each_variant_is_chosen_by_what_the_others_came_to(self, tmp_path: Path) -> None:
        """With more tries than the estimator's start, it finds the best of 64 without trying half of them."""
        source = f"# fake: score=A regs=B\nA = 1  # tune: {', '.join(map(str, range(1, 33)))}\nB = 1  # tune: 1, 2\n"
        world = world_of(tmp_path, source, tune_inside=30)
        await world.run()
        assert max(score(p) for p in world.programs()) >= 30

    async def test_one_that_ran_out_of_memory_may_fit_with_other_values(self, tmp_path: Path) -> None:
        def source(status: str) -> str:
            return f"# fake: score=1.5 status=STATUS\nSTATUS = {status}  # tune: out_of_memory, passed\n"

        world = world_of(tmp_path, source("out_of_memory"), source("passed") + "# other", tune_inside=1)
        await world.run()
        failed, variant, *_ = world.programs()[1:]
        assert (failed.verdict and failed.verdict.status) is Status.OUT_OF_MEMORY
        assert (failed.placement, variant.placement) == (AddStatus.NOT_ADDED, AddStatus.IMPROVE)
        with world.view() as view:
            assert view.record.best == variant.number

    @pytest.mark.parametrize(
        ("source", "changes"),
        [
            pytest.param(structure(status="wrong_values"), {}, id="failed"),
            pytest.param(structure(status="build_error"), {}, id="not-built"),
            pytest.param(fake_source(2.0), {}, id="nothing-to-tune"),
            pytest.param(structure(2.0, choices="2.0"), {}, id="one-choice"),
            pytest.param(structure(), {"tune_inside": 0}, id="off"),
            pytest.param(structure(), {"tune_inside_from": ("llm", "agent")}, id="another's"),
        ],
    )
    async def test_what_is_not_tuned(self, tmp_path: Path, source: str, changes: dict[str, Any]) -> None:
        world = world_of(tmp_path, source, **changes)
        await world.run()
        assert len(world.programs()) == 2

    async def test_the_values_end_before_the_budget(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure(1.25, choices="1.25, 2.0"))
        await world.run()
        assert [score(p) for p in world.programs()] == [1.0, 1.25, 2.0]
        with world.view() as view:
            assert view.record.best == 3

    async def test_islands_still_take_turns(self, tmp_path: Path) -> None:
        sources = [structure(text=f"# {n}") for n in range(6)]
        world = world_of(tmp_path, *sources, islands=4)
        await world.run()
        structures = [p for p in world.programs() if p.variant_of is None]
        assert [p.island for p in structures] == [0, 1, 2, 3, 0, 1, 2]
        variants = [p for p in world.programs() if p.variant_of is not None]
        assert len(variants) == 18
        assert all(p.island == world.programs()[p.variant_of - 1].island for p in variants)  # type: ignore[operator]

    async def test_variants_are_judged_side_by_side_with_others(self, tmp_path: Path) -> None:
        sources = [structure(text=f"# {n}") for n in range(8)]
        world = world_of(tmp_path, *sources, lanes=3, queue=2, proposals=2, islands=2)
        await world.run()
        programs = world.programs()
        assert len(programs) == 1 + 8 * 4
        assert all(p.state is ProgramState.FINISHED for p in programs)
        for number in (p.number for p in programs if p.proposer == "fake"):
            family = [p for p in programs if number in (p.number, p.variant_of)]
            best = max(score(p) for p in family)
            assert all(score(p) == best for p in family if p.placement is not AddStatus.NOT_ADDED)


class TestFailures:
    async def test_a_winner_that_fails_its_confirmation_gives_way_to_the_next(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure(1.25, choices="1.25, 2.0, 3.0"))
        world.judge.confirm_status = lambda s: Status.NONDETERMINISTIC if "GAIN = 3.0" in s else Status.PASSED
        await world.run()
        by_source = {p.source.split("GAIN = ")[1][:3]: p for p in world.programs()[1:]}
        assert by_source["3.0"].placement is AddStatus.NOT_ADDED
        assert by_source["2.0"].placement is AddStatus.IMPROVE
        with world.view() as view:
            assert view.record.best == by_source["2.0"].number
            assert all(p.state is ProgramState.FINISHED for p in view.storage.programs())

    async def test_where_every_variant_fails_the_structure_is_compared(self, tmp_path: Path) -> None:
        source = "# fake: score=1.5 status=S\nS = passed  # tune: passed, wrong_values, timeout\n"
        world = world_of(tmp_path, source)
        await world.run()
        with world.view() as view:
            assert view.record.best == 2
        assert [p.score for p in world.programs()] == [1.0, 1.5, None, None]


class TestBudget:
    @pytest.mark.parametrize("lanes", [1, 3])
    async def test_variants_count_against_the_cap(self, tmp_path: Path, lanes: int) -> None:
        sources = [structure(text=f"# {n}") for n in range(9)]
        world = world_of(tmp_path, *sources, caps=Caps(candidates=12), lanes=lanes, queue=lanes)
        outcome = await world.run()
        assert outcome.reason is StopReason.CANDIDATES
        assert len(world.programs()) == 12
        assert all(p.state is ProgramState.FINISHED for p in world.programs())

    async def test_a_family_that_a_cap_cut_short_is_compared_as_it_is(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure(), caps=Caps(candidates=3))
        await world.run()
        assert [p.variant_of for p in world.programs()] == [None, None, 2]
        with world.view() as view:
            assert view.record.best in {2, 3}

    @pytest.mark.parametrize("timed", [False, True])
    async def test_device_time_never_passes_its_cap(self, tmp_path: Path, timed: bool) -> None:
        sources = [structure(text=f"# {n}") for n in range(9)]
        world = world_of(tmp_path, *sources, caps=Caps(device_seconds=0.21))
        world.judge = FakeJudge(timed=timed)
        outcome = await world.run()
        assert outcome.reason is StopReason.DEVICE_SECONDS
        with world.view() as view:
            assert view.progress().spent.charge.device_s <= 0.21
            assert view.record.best != 1
        await world.resume(Caps(candidates=20))
        assert all(p.state is ProgramState.FINISHED for p in world.programs())

    async def test_nothing_stays_reserved(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure(1.25, choices="1.25, 2.0"), structure(2.0, text="# b"))
        with world.create() as run:
            await world.search(run)
            assert run.budget.promised == Charge()


class TestCredit:
    async def test_a_proposer_is_told_what_its_structure_came_to(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure())
        await world.run()
        (told,) = world.proposer.told
        stored, *variants = world.programs()[1:]
        winner = max(variants, key=score)
        assert (told.number, told.source, told.score) == (2, stored.source, winner.score)
        assert (told.placement, told.confirmed) == (AddStatus.IMPROVE, True)
        assert (stored.score, stored.placement) == (1.25, AddStatus.NOT_ADDED), "what is stored is its own"

    async def test_a_resumed_run_tells_the_same(self, tmp_path: Path) -> None:
        world = world_of(tmp_path, structure(), structure(3.0, "# b"), structure(2.5, "# c"))
        await world.run()
        told = world.proposer.told
        world.proposer = FakeProposer(lambda context: None)
        await world.resume()
        assert world.proposer.told == told


CANDIDATES = 14


def structures(context: ProposeContext) -> str:
    """Structures of all kinds, from the context alone."""
    kind = context.number % 5
    if kind == 3:
        return fake_source(1.0 + context.number / 100, text=f"plain {context.number}")
    gain = (context.parent.score or 1.0) + 0.1 * kind
    choices = ", ".join(f"{gain + step:.2f}" for step in (-0.2, -0.1, 0.0, 0.1, 0.3))
    return structure(round(gain, 2), f"# child {context.number} of {context.parent.number}", choices=choices)


def _confirm(source: str) -> Status:
    return Status.NONDETERMINISTIC if "child 6 " in source else Status.PASSED


def crashing(folder: Path, *, timed: bool) -> World:
    judge = FakeJudge(timed=timed)
    judge.confirm_status = _confirm
    caps = Caps(candidates=CANDIDATES)
    return World(
        folder,
        tuned(caps, tune_inside=2, islands=2, migration_every=5, stagnation=3),
        judge=judge,
        proposer=FakeProposer(structures),
    )


@pytest.mark.parametrize(
    "step", [4, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(900)])], ids=["some", "all"]
)
@pytest.mark.parametrize("timed", [False, True], ids=["value", "time"])
async def test_a_crash_at_any_commit_changes_nothing(tmp_path: Path, timed: bool, step: int) -> None:
    fresh = crashing(tmp_path / "fresh", timed=timed)
    fresh.create().close()
    whole = crashing(tmp_path / "whole", timed=timed)
    await whole.run()
    with whole.view() as view:
        expected = history(view)
    told = whole.proposer.told
    assert sum(p.variant_of is not None for p in expected["programs"]) >= 5, "the scenario covers what it claims to"
    at = 0
    for at in range(1, 1000, step):
        world = crashing(tmp_path / f"crash{at}", timed=timed)
        if not await crash_at(world, at, after=at % 2 == 0, fresh=fresh.directory):
            break
        world.proposer = FakeProposer(structures)
        await world.resume()
        with world.view() as view:
            found = history(view)
        for part, value in expected.items():
            assert found[part] == value, f"crash at write {at}: {part}"
        assert world.proposer.told == told, f"crash at write {at}"
        shutil.rmtree(world.folder)
    assert at > 40, "every write of the run was a crash once"
