"""Judges that fail, hang or cannot be started anew, in the middle of a search."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import JudgeError, TaskError
from evaluators.evaluation import Evaluation, Status
from evaluators.task import Language
from evolve.loop import WeightedProposer, search
from evolve.settings import Caps
from evolve.testing import FakeJudge
from evolve.types import AddStatus, ProgramState, RunStatus, StopReason
from tests.evolve.searching import World, failing, of_proposer, scores, settings


class TestFailuresOfTheJudge:
    @pytest.mark.parametrize("times", [1, 2])
    async def test_a_failure_is_tried_again_with_a_new_judge(self, tmp_path: Path, times: int) -> None:
        world = World(tmp_path, settings(Caps(candidates=2)))
        world.proposer.make = scores(2.0)
        world.judge.before = failing(times, lambda: JudgeError("the judge ended"), text="score=2.0")
        await world.run()
        assert world.programs()[1].score == 2.0
        assert world.judges_started == 1 + times
        with world.view() as view:
            assert [e.kind for e in view.storage.ledger()].count("infra") == times

    async def test_the_third_failure_makes_it_the_programs_and_nobody_is_blamed(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=3)))
        world.proposer.make = scores(2.0, 3.0)
        world.judge.before = failing(3, lambda: JudgeError("the judge ended"), text="score=2.0")
        await world.run()
        program = world.programs()[1]
        assert program.verdict is not None
        assert (program.verdict.status, program.score) == (Status.RUNTIME_ERROR, None)
        assert program.judge_failed
        assert of_proposer(world) == [3]
        assert world.programs()[2].score == 3.0, "the search goes on"

    async def test_infra_error_is_such_a_failure(self, tmp_path: Path) -> None:
        class Sick(FakeJudge):
            async def evaluate(self, source: str, language: Language) -> Evaluation:
                found = await super().evaluate(source, language)
                if self.evaluated.count(source) > 2 or "score=2.0" not in source:
                    return found
                return found.model_copy(update={"status": Status.INFRA_ERROR, "score": None})

        world = World(tmp_path, settings(Caps(candidates=2)), judge=Sick())
        world.proposer.make = scores(2.0)
        await world.run()
        assert world.programs()[1].score == 2.0
        assert world.judges_started == 3

    async def test_a_neighbour_of_a_killer_is_judged_fairly(self, tmp_path: Path) -> None:
        """Whatever is in the judge's hands dies with it; tries that follow have the judge for themselves."""

        class Mortal(FakeJudge):
            dead = asyncio.Event()

            async def evaluate(self, source: str, language: Language) -> Evaluation:
                if "score=6.0" in source:
                    self.dead.set()
                    raise JudgeError("the judge ended")
                if "score=5.0" in source:  # A slow neighbour: it ends with the judge, where that ends.
                    await asyncio.wait({asyncio.ensure_future(self.dead.wait())}, timeout=0.05)
                    if self.dead.is_set():
                        self.dead.clear()
                        raise JudgeError("the judge ended")
                return await super().evaluate(source, language)

        world = World(tmp_path, settings(Caps(candidates=3), lanes=2, queue=1, proposals=2), judge=Mortal())
        world.proposer.make = scores(5.0, 6.0)
        await world.run()
        by_score = {("6.0" if "score=6.0" in p.source else "other"): p for p in world.programs()[1:]}
        assert by_score["6.0"].judge_failed
        assert by_score["other"].score == 5.0

    async def test_a_judge_that_hangs_is_started_anew(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=2), evaluation_timeout_s=0.5))
        hung = [False]

        async def before(method: str, source: str) -> None:
            if "score=2.0" in source and not hung[0]:
                hung[0] = True
                await asyncio.Event().wait()

        world.judge.before = before
        world.proposer.make = scores(2.0)
        await world.run()
        assert world.programs()[1].score == 2.0
        assert any("no answer within 0.5 s" in note for note in world.recorder.notes)

    async def test_a_question_that_waits_for_others_to_its_judge_does_not_hang_it(self, tmp_path: Path) -> None:
        """However long the others build or have the device; those have deadlines of their own."""

        class Queueing(FakeJudge):
            looks = 0

            def queued_s(self, last_s: float, asker: asyncio.Task[Any] | None = None) -> float:
                assert asker is not None
                self.looks += "waits" in asker.get_name()
                return last_s

        judge = Queueing()
        world = World(tmp_path, settings(Caps(candidates=2), evaluation_timeout_s=0.05), judge=judge)

        async def before(method: str, source: str) -> None:
            if method == "evaluate" and "score=2.0" in source:
                task = asyncio.current_task()
                assert task is not None
                task.set_name("it waits")
                while judge.looks < 3:  # of which each but the first comes a deadline later
                    await asyncio.sleep(0)

        judge.before = before
        world.proposer.make = scores(2.0)
        await world.run()
        assert world.programs()[1].score == 2.0
        assert not any("no answer" in note for note in world.recorder.notes)

    async def test_a_judge_that_waits_for_another_one_does_not_hang(self, tmp_path: Path) -> None:
        """However long another judge of the machine has the device."""
        released = asyncio.Event()

        class Waiting(FakeJudge):
            def held_up_s(self, last_s: float) -> float:
                released.set()
                return last_s

        world = World(tmp_path, settings(Caps(candidates=2), evaluation_timeout_s=0.2), judge=Waiting())

        async def before(method: str, source: str) -> None:
            if "score=2.0" in source:
                await released.wait()

        world.judge.before = before
        world.proposer.make = scores(2.0)
        await world.run()
        assert released.is_set()
        assert world.programs()[1].score == 2.0
        assert world.judges_started == 1

    async def test_a_judge_that_cannot_be_started_anew_ends_the_run_and_resume_goes_on(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=3)))
        world.proposer.make = scores(2.0, 3.0)
        world.judge.before = failing(1, lambda: JudgeError("the device is gone"), text="score=2.0")
        start = world.start_judge
        with world.create() as run:

            async def start_once() -> FakeJudge:
                if world.judges_started:
                    raise JudgeError("no such device")
                return await start()

            with pytest.raises(JudgeError, match="cannot be started anew: no such device"):
                await search(run, start_once, [WeightedProposer(world.proposer)])
        with world.view() as view:
            assert view.record.status is RunStatus.FAILED
            assert "no such device" in view.record.reason
            assert view.program(2).state is ProgramState.QUEUED
        await world.resume()
        assert [p.score for p in world.programs()] == [1.0, 2.0, 3.0]

    async def test_the_judge_failing_on_the_seed_is_no_verdict(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.judge.before = failing(3, lambda: JudgeError("the judge ended"))
        with pytest.raises(JudgeError, match=r"on the seed program seed\.py: the judge ended"):
            await world.run()
        assert world.programs()[0].state is ProgramState.QUEUED

    async def test_a_program_that_the_tasks_evaluator_cannot_take_does_not_end_the_run(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=3)))
        world.proposer.make = scores(2.0, 3.0)
        world.judge.before = failing(3, lambda: TaskError("returned a spread that is not finite"), text="score=2.0")
        await world.run()
        assert world.programs()[1].judge_failed
        assert world.programs()[2].score == 3.0, "the search goes on"
        assert world.judges_started == 1, "the judge is well"

    async def test_an_evaluator_that_fails_on_the_seed_is_the_users_to_mend(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.judge.before = failing(1, lambda: TaskError("returned no 'score'"))
        with pytest.raises(TaskError, match="returned no 'score'"):
            await world.run()
        await world.resume()
        assert world.programs()[0].score == 1.0

    async def test_a_duel_the_judge_cannot_hold_leaves_the_occupant(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=2)), judge=FakeJudge(timed=True))
        world.proposer.make = scores(2.0)
        world.judge.before = failing(3, lambda: JudgeError("the judge ended"), method="duel")
        await world.run()
        program = world.programs()[1]
        assert (program.score, program.placement) == (2.0, AddStatus.NOT_ADDED)


class TestWhatIsBookedOfABrokenQuestion:
    """Of the device what it had, not what it waited for it: other judges, other lanes and builds come first."""

    async def test_a_judge_that_dies(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=2, device_seconds=10.0)), judge=FakeJudge(used_s=0.25))
        world.proposer.make = scores(2.0)
        world.judge.before = failing(1, lambda: JudgeError("the judge ended"), text="score=2.0")
        await world.run()
        assert booked(world, "infra") == [0.25]

    async def test_a_search_that_is_stopped(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=2)), judge=FakeJudge(used_s=0.0))
        world.stop = asyncio.Event()
        world.proposer.make = scores(2.0)

        async def stopped_while_it_waits(method: str, source: str) -> None:
            if "score=2.0" in source:
                world.stop.set()  # type: ignore[union-attr]
                await asyncio.Event().wait()

        world.judge.before = stopped_while_it_waits
        await world.run()
        assert booked(world, "abandoned") == [0.0]

    async def test_near_the_cap_a_build_takes_nothing_of_what_is_left(self, tmp_path: Path) -> None:
        """It takes longer than what is left of the device, and hardly needs any."""
        world = World(tmp_path, settings(Caps(device_seconds=0.2, candidates=2)), judge=FakeJudge(used_s=0.0))
        world.proposer.make = scores(2.0)

        async def before(method: str, source: str) -> None:
            if method == "evaluate" and "score=2.0" in source:
                await asyncio.sleep(0.4)

        world.judge.before = before
        async with asyncio.timeout(20):
            outcome = await world.run()
        assert outcome.reason is StopReason.CANDIDATES
        assert world.programs()[1].score == 2.0
        assert (world.judges_started, booked(world, "abandoned")) == (1, [])

    async def test_what_has_had_all_that_is_left_is_broken_off_and_not_put_again_for_ever(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(device_seconds=0.3)), judge=FakeJudge(used_s=0.0))

        async def before(method: str, source: str) -> None:
            if "child" in source:
                world.judge.used_s = 1000.0
                await asyncio.Event().wait()

        world.judge.before = before
        async with asyncio.timeout(20):
            outcome = await world.run()
        assert outcome.reason is StopReason.DEVICE_SECONDS
        (abandoned,) = booked(world, "abandoned")
        assert abandoned == pytest.approx(0.3 - 2 * world.judge.cost.device_s), "what was left of it, and no more"


def booked(world: World, kind: str) -> list[float]:
    """Device seconds of the bookings of a kind."""
    with world.view() as view:
        return [entry.charge.device_s for entry in view.storage.ledger() if entry.kind == kind]
