"""Caps on a search: what would pass one is not started, and all that was is booked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from evaluators.evaluation import Cost
from evolve.budget import Charge, Reservation
from evolve.judge_keeper import JudgeKeeper
from evolve.judging import LEAST_ROOM_S, Judging
from evolve.settings import Caps
from evolve.testing import FakeJudge, FakeProposer, fake_source
from evolve.types import Program, ProgramState, Proposal, ProposeContext, StopReason
from tests.evolve.searching import World, book_model_call, scores, settings


class TestBudget:
    @pytest.mark.parametrize(("lanes", "queue", "proposals"), [(1, 0, 1), (2, 2, 1), (4, 3, 5)])
    async def test_parallelism_does_not_raise_the_cap_on_candidates(
        self, tmp_path: Path, lanes: int, queue: int, proposals: int
    ) -> None:
        world = World(tmp_path, settings(Caps(candidates=17), lanes=lanes, queue=queue, proposals=proposals))
        await world.run()
        assert len(world.programs()) == 17
        assert all(p.state is ProgramState.FINISHED for p in world.programs())

    @pytest.mark.parametrize("lanes", [1, 3])
    @pytest.mark.parametrize("timed", [False, True])
    async def test_device_time_never_passes_its_cap(self, tmp_path: Path, lanes: int, timed: bool) -> None:
        caps = Caps(device_seconds=0.5)
        world = World(tmp_path, settings(caps, lanes=lanes, queue=lanes), judge=FakeJudge(timed=timed))
        outcome = await world.run()
        assert outcome.reason is StopReason.DEVICE_SECONDS
        with world.view() as view:
            spent = sum(entry.charge.device_s for entry in view.storage.ledger())
        assert 0.4 < spent <= 0.5

    @pytest.mark.parametrize("cap_s", [3600.0, 1000.0, 300.0])
    async def test_a_cap_is_shared_by_what_is_asked_side_by_side(self, tmp_path: Path, cap_s: float) -> None:
        """A question's worst case is a quarter of an hour, and hardly any takes more than seconds of the device."""
        world = World(tmp_path, settings(Caps(device_seconds=cap_s), lanes=8, evaluation_timeout_s=1000.0))
        with world.create() as run:
            judging = Judging(run, JudgeKeeper(world.start_judge), lambda text: None)
            open_now: list[Reservation] = []
            while isinstance(found := judging.reserve(), Reservation) and len(open_now) < 20:
                open_now.append(found)
            promised = [one.worst.device_s for one in open_now]
            assert sum(promised) <= cap_s
            assert min(promised) >= LEAST_ROOM_S
            assert len(open_now) >= min(9, cap_s // LEAST_ROOM_S)
            run.budget.settle(open_now[0], Charge(device_s=5.0))
            assert isinstance(judging.reserve(), Reservation), "what ends makes room for the next"

    async def test_what_was_broken_off_beside_others_is_given_more_the_next_time(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(device_seconds=900.0), lanes=8, evaluation_timeout_s=1000.0))
        with world.create() as run:
            seed = run.add_seed()
            assert isinstance(seed, Program)
            judging, given = Judging(run, JudgeKeeper(world.start_judge), lambda text: None), []
            while isinstance(found := judging.reserve(), Reservation):
                given.append(found.worst.device_s)
                run.booking.cut_short(seed, found, Cost(device_s=found.worst.device_s))
            assert given == sorted(given)
            assert given[-1] >= 2 * given[0]
            assert sum(given) <= 900.0

    async def test_near_the_cap_an_evaluation_is_broken_off_and_stays_queued(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(device_seconds=0.3)))

        async def before(method: str, source: str) -> None:
            if "child" in source:
                await asyncio.Event().wait()

        world.judge.before = before
        outcome = await asyncio.wait_for(world.run(), 60)
        assert outcome.reason is StopReason.DEVICE_SECONDS
        assert world.programs()[-1].state is ProgramState.QUEUED
        with world.view() as view:
            assert view.progress().spent.charge.device_s <= 0.3

    async def test_a_contender_that_cannot_be_confirmed_waits_for_a_larger_budget(self, tmp_path: Path) -> None:
        # Seed: evaluation and confirmation, 0.04 s. Its child's evaluation makes 0.06; a confirmation would need more.
        world = World(tmp_path, settings(Caps(device_seconds=0.07)))
        world.proposer.make = scores(2.0)
        outcome = await world.run()
        assert outcome.reason is StopReason.DEVICE_SECONDS
        with world.view() as view:
            assert [p.number for p in view.pending()] == [2]
            assert view.record.best == 1
        await world.resume(Caps(candidates=2))
        with world.view() as view:
            assert view.record.best == 2
            assert view.pending() == []
        assert len(world.judge.evaluated) == 2, "what was judged is not judged again"

    @pytest.mark.parametrize("proposals", [1, 4])
    async def test_money_in_flight_counts_with_its_worst_case(self, tmp_path: Path, proposals: int) -> None:
        """A proposer that says what a call may cost is not asked where that would pass the cap."""
        world = World(tmp_path, settings(Caps(dollars=1.0), lanes=2, queue=3, proposals=proposals))
        with world.create() as run:

            class Paid(FakeProposer):
                def worst_case(self) -> Charge:
                    return Charge(dollars=0.3, tokens=100)

                async def propose(self, context: ProposeContext) -> Proposal | None:
                    await asyncio.sleep(0)
                    book_model_call(run, context.number, 0.3, 100)
                    return await super().propose(context)

            world.proposer = Paid(lambda c: fake_source(1.0, text=str(c.number)))
            outcome = await world.search(run)
            assert outcome.reason is StopReason.DOLLARS
            assert run.budget.spent.charge.dollars == pytest.approx(0.9)
            assert run.budget.spent.charge.tokens == 300
        assert len(world.programs()) == 4

    async def test_failed_candidates_are_booked(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=3)))
        world.proposer.make = scores("build_error", "timeout")
        await world.run()
        with world.view() as view:
            booked = {e.program: e.charge.device_s for e in view.storage.ledger() if e.kind == "evaluation"}
        assert booked == {1: 0.02, 2: 0.02, 3: 0.02}
