"""The search loop against a fake judge: what is launched, in what order, who is told, and how it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from evaluators.errors import UsageError
from evolve.loop import WeightedProposer, search
from evolve.observer import Progress
from evolve.run import Run
from evolve.settings import Caps
from evolve.testing import FakeProposer, fake_source
from evolve.types import AddStatus, Program, ProgramState, ProposeContext, RunStatus, StopReason
from tests.evolve.searching import Recorder, World, history, scores, settings


class TestOneWorker:
    async def test_the_same_seed_gives_the_same_history(self, tmp_path: Path) -> None:
        first, second, other = (World(tmp_path / name) for name in ("a", "b", "c"))
        other.settings = settings(Caps(candidates=30), seed=4)
        for world in (first, second, other):
            await world.run()
        with first.view() as a, second.view() as b, other.view() as c:
            assert history(a) == history(b)
            assert history(a)["programs"] != history(c)["programs"]
            assert len(history(a)["migrations"]) == 3
            assert any(kind == "reset" for kind, _ in history(a)["events"])

    async def test_islands_exchange_and_each_has_its_own_programs(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=30), islands=3, stagnation=1000))
        await world.run()
        with world.view() as view:
            moves = [move for round_ in view.storage.migrations() for move in round_.moves]
        assert {(m.source, m.target) for m in moves} == {(0, 1), (1, 2), (2, 0)}
        assert any(m.placement is AddStatus.IMPROVE for m in moves)
        assert {p.island for p in world.programs()} == {0, 1, 2}

    async def test_a_reset_keeps_the_best_ever(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=40), stagnation=3, migration_every=1000))
        world.proposer.make = scores(9.0, then=None)
        world.proposer.make = lambda c: fake_source(9.0 if c.number == 3 else 0.1, text=str(c.number))
        await world.run()
        with world.view() as view:
            assert view.record.best == 3
            assert {c.program for c in view.storage.cells()} == {3}, "the stagnant island started over from the best"
            assert view.storage.islands()[1].resets >= 1


class TestProposers:
    async def test_weights_decide_how_often_each_is_asked(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=121)))
        often, seldom = (
            FakeProposer(lambda c, n=name: fake_source(1.0, text=f"{n} {c.number}"), name)  # type: ignore[misc]
            for name in ("often", "seldom")
        )
        with world.create() as run:
            await search(run, world.start_judge, [WeightedProposer(often, 3.0), WeightedProposer(seldom, 1.0)])
        assert len(often.told) + len(seldom.told) == 120
        assert len(often.told) / len(seldom.told) == pytest.approx(3.0, rel=0.5)

    async def test_where_one_has_nothing_the_next_is_asked(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=10)))
        empty, full = FakeProposer(lambda c: None, "empty"), world.proposer
        with world.create() as run:
            await search(run, world.start_judge, [WeightedProposer(empty, 1000.0), WeightedProposer(full, 0.001)])
        assert len(full.told) == 9

    @pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
    async def test_a_weight_is_not_negative_and_finite(self, tmp_path: Path, weight: float) -> None:
        world = World(tmp_path)
        with world.create() as run, pytest.raises(UsageError, match="weight of fake must not be negative"):
            await search(run, world.start_judge, [WeightedProposer(world.proposer, weight)])

    async def test_slow_proposers_are_asked_side_by_side(self, tmp_path: Path) -> None:
        together = asyncio.Barrier(3)

        class Slow(FakeProposer):
            async def propose(self, context: ProposeContext):  # type: ignore[no-untyped-def]
                await together.wait()
                return await super().propose(context)

        world = World(tmp_path, settings(Caps(candidates=7), lanes=1, queue=2, proposals=3))
        world.proposer = Slow(lambda c: fake_source(1.0, text=str(c.number)))
        outcome = await asyncio.wait_for(world.run(), 60)
        assert outcome.reason is StopReason.CANDIDATES
        assert len(world.programs()) == 7

    async def test_an_error_of_a_proposer_ends_the_run_in_order(self, tmp_path: Path) -> None:
        def broken(context: ProposeContext) -> str:
            raise ZeroDivisionError("a bug")

        world = World(tmp_path, proposer=FakeProposer(broken))
        with pytest.raises(ZeroDivisionError):
            await world.run()
        assert world.judge.closed
        with world.view() as view:
            assert (view.record.status, view.record.reason) == (RunStatus.FAILED, "a bug")


class TestFlow:
    async def test_lanes_are_full_and_the_queue_is_short(self, tmp_path: Path) -> None:
        """Three lanes and two that wait: the judge answers nothing until five are there, and there are never more."""
        full = asyncio.Event()

        class Watch(Recorder):
            waiting: int = 0
            most: int = 0

            def on_queued(self, program: Program) -> None:
                self.waiting += 1
                self.most = max(self.most, self.waiting)
                if self.waiting == 5:
                    full.set()

            def on_program(self, program: Program) -> None:
                self.waiting -= 1

        inside = [0, 0]

        async def before(method: str, source: str) -> None:
            if method == "evaluate" and "number" in source:
                inside[0] += 1
                inside[1] = max(inside)
                await full.wait()
                inside[0] -= 1

        watch = Watch()
        world = World(tmp_path, settings(Caps(candidates=20), lanes=3, queue=2), recorder=watch)
        world.judge.before = before
        world.proposer.make = lambda c: fake_source(0.5, text=f"number {c.number}")
        await asyncio.wait_for(world.run(), 60)
        assert inside[1] == 3
        assert watch.most == 5
        assert len(world.programs()) == 20

    async def test_the_heart_beats_while_the_judge_is_busy(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evolve.flow.HEARTBEAT_S", 0.005)
        beats = asyncio.Event()
        world = World(tmp_path, settings(Caps(candidates=1)))

        class Pulse(Recorder):
            def on_progress(self, progress: Progress) -> None:
                beats.set()

        async def before(method: str, source: str) -> None:
            with world.view() as view:
                first = view.record
                beats.clear()
                await beats.wait()
                assert view.record.heartbeat_at > first.heartbeat_at
                assert view.record.active_s > first.active_s
                assert view.alive()

        world.recorder = Pulse()
        world.judge.before = before
        await asyncio.wait_for(world.run(), 60)
        assert world.programs()[0].state is ProgramState.FINISHED
        with world.view() as view:
            assert not view.alive()


class TestStopping:
    async def test_stop_abandons_what_is_in_hand_and_resume_judges_it(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=4), lanes=2, queue=1), stop=asyncio.Event())
        world.proposer.make = scores(2.0, 3.0, 4.0)

        async def before(method: str, source: str) -> None:
            if "score=3.0" in source:
                assert world.stop is not None
                world.stop.set()
                await asyncio.Event().wait()

        world.judge.before = before
        outcome = await asyncio.wait_for(world.run(), 60)
        assert outcome.status is RunStatus.INTERRUPTED
        assert world.judge.closed
        with world.view() as view:
            assert view.record.status is RunStatus.INTERRUPTED
            assert view.program(3).state is ProgramState.QUEUED
            assert "abandoned" in [e.kind for e in view.storage.ledger()]
        world.judge.before, world.stop = None, None
        assert (await world.resume()).status is RunStatus.FINISHED
        assert [p.score for p in world.programs()] == [1.0, 2.0, 3.0, 4.0]
        assert len(world.judge.evaluated) == 4

    async def test_cancelling_the_search_is_an_interruption(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        reached = asyncio.Event()

        async def before(method: str, source: str) -> None:
            reached.set()
            await asyncio.Event().wait()

        world.judge.before = before
        task = asyncio.create_task(world.run())
        await asyncio.wait_for(reached.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with world.view() as view:
            assert view.record.status is RunStatus.INTERRUPTED

    async def test_at_the_wall_clock_deadline_what_is_in_flight_stays_queued(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evolve.flow.HEARTBEAT_S", 0.01)
        now = [0.0]
        world = World(tmp_path, settings(Caps(seconds=60)))

        async def before(method: str, source: str) -> None:
            if "child" in source:
                now[0] += 60
                await asyncio.Event().wait()

        world.judge.before = before
        with Run.create(world.directory, world.task, world.settings, clock=lambda: now[0]) as run:
            outcome = await asyncio.wait_for(world.search(run), 60)
        assert (outcome.status, outcome.reason) == (RunStatus.FINISHED, StopReason.SECONDS)
        assert [p.state for p in world.programs()] == [ProgramState.FINISHED, ProgramState.QUEUED]
        with world.view() as view:
            assert view.record.active_s == 60

    async def test_patience_and_target(self, tmp_path: Path) -> None:
        patient = World(tmp_path / "p", settings(Caps(patience=3)))
        patient.proposer.make = scores(2.0, 0.1, "timeout", 0.2, 0.3, 0.4)
        assert (await patient.run()).reason is StopReason.PATIENCE
        assert len(patient.programs()) == 6, "a failure is no accepted trial"
        target = World(tmp_path / "t", settings(Caps(target=3.0), islands=1))
        target.proposer.make = scores(2.0, 3.5, 9.0)
        assert (await target.run()).reason is StopReason.TARGET
        assert len(target.programs()) == 3

    async def test_a_cap_of_no_candidates_launches_nothing(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=0)))
        assert (await world.run()).reason is StopReason.CANDIDATES
        assert world.judge.evaluated == []
