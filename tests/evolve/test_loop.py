"""The search loop against a fake judge: what is launched, what is placed, who is told, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluators.errors import JudgeError, TaskError, UsageError
from evaluators.evaluation import Duel, DuelOutcome, Evaluation, Status
from evaluators.task import ArchiveDimension, Language
from evolve.budget import Charge
from evolve.database.records import GLOBAL
from evolve.loop import WeightedProposer, search
from evolve.observer import Progress
from evolve.run import Run
from evolve.settings import Caps
from evolve.testing import FakeJudge, FakeProposer, fake_source
from evolve.types import AddStatus, Program, ProgramState, Proposal, ProposeContext, RunStatus, StopReason
from tests.evolve.searching import Recorder, World, book_model_call, failing, history, settings


def scores(*values: float | str, then: str | None = None) -> Callable[[ProposeContext], str | None]:
    """Makes the given programs in turn: a score, or a status; after them ``then``."""
    left = list(values)

    def make(context: ProposeContext) -> str | None:
        if not left:
            return then
        value = left.pop(0)
        text = f"number {context.number}"
        return (
            fake_source(value, text=text)
            if isinstance(value, float)
            else fake_source(0.0, status=Status(value), text=text)
        )

    return make


def of_proposer(world: World) -> list[int]:
    return [program.number for program in world.proposer.told]


class TestPlacement:
    async def test_a_run_judges_places_and_keeps_the_best(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=6), islands=1))
        world.proposer.make = scores(2.0, "wrong_values", 1.5, 3.0, 2.5)
        outcome = await world.run()
        assert (outcome.status, outcome.reason) == (RunStatus.FINISHED, StopReason.CANDIDATES)
        programs = world.programs()
        assert [p.score for p in programs] == [1.0, 2.0, None, 1.5, 3.0, 2.5]
        assert [p.placement for p in programs] == [
            AddStatus.NEW,
            AddStatus.IMPROVE,
            AddStatus.NOT_ADDED,
            AddStatus.NOT_ADDED,
            AddStatus.IMPROVE,
            AddStatus.NOT_ADDED,
        ]
        assert [p.number for p in world.recorder.bests] == [1, 2, 5]
        assert world.recorder.statuses == [RunStatus.RUNNING, RunStatus.FINISHED]
        assert (world.directory / "best.py").read_text() == programs[4].source
        assert of_proposer(world) == [2, 3, 4, 5, 6]
        assert world.judge.closed

    async def test_every_cell_keeps_its_best_and_the_archive_over_all_islands_too(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=40), islands=3))
        dimension = ArchiveDimension(measure="regs", low=0, high=4, bins=4)
        world.task_options = {"archive": (dimension,), "seed_source": fake_source(1.0, regs=0)}
        world.proposer.make = lambda c: fake_source(
            float(c.rng.random() * 5), regs=int(c.rng.integers(4)), text=str(c.number)
        )
        await world.run()
        best = {}
        for program in world.programs():
            assert program.evaluation is not None
            cell = int(program.evaluation.measures["regs"])
            best[cell] = max(best.get(cell, (0.0, 0)), (program.score or 0.0, program.number))
        with world.view() as view:
            held = {c.cell: c.program for c in view.storage.cells() if c.island == GLOBAL}
            assert held == {cell: number for cell, (_, number) in best.items()}
            assert view.record.best == max(best.values())[1]

    async def test_a_program_that_passes_unmeasured_is_placed_nowhere(self, tmp_path: Path) -> None:
        class Noisy(FakeJudge):
            async def evaluate(self, source: str, language: Language) -> Evaluation:
                found = await super().evaluate(source, language)
                return found if "seed" in source else found.model_copy(update={"score": None})

        world = World(tmp_path, settings(Caps(candidates=3)), judge=Noisy())
        world.task_options = {"seed_source": fake_source(1.0, text="seed")}
        await world.run()
        assert [p.placement for p in world.programs()][1:] == [AddStatus.NOT_ADDED] * 2
        assert world.judge.confirmed == [fake_source(1.0, text="seed")]

    async def test_by_time_only_a_won_duel_takes_a_cell(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=5), islands=1), judge=FakeJudge(timed=True))
        world.proposer.make = scores(0.5, 1.0 + 1e-6, 1.5, 1.49)
        await world.run()
        placements = [p.placement for p in world.programs()]
        assert placements == [
            AddStatus.NEW,
            AddStatus.NOT_ADDED,  # Its interval lies below the seed's: no duel.
            AddStatus.NOT_ADDED,  # A draw: the occupant stays.
            AddStatus.IMPROVE,
            AddStatus.NOT_ADDED,
        ]
        with world.view() as view:
            assert [n for n in range(1, 6) if view.duels(n)] == [3, 4, 5]
        assert len(world.judge.dueled) == 3, "one duel against one occupant, though it holds three places"

    async def test_a_challenger_that_fails_in_a_duel_has_failed(self, tmp_path: Path) -> None:
        class Strict(FakeJudge):
            async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
                failure = {"failure": Status.WRONG_VALUES, "message": "row 3 differs", "cost": self.cost}
                return Duel(outcome=DuelOutcome.FAILED, ratio=None, **failure)  # type: ignore[arg-type]

        world = World(tmp_path, settings(Caps(candidates=2)), judge=Strict(timed=True))
        world.proposer.make = scores(9.0)
        await world.run()
        program = world.programs()[1]
        assert program.verdict is not None
        assert (program.verdict.status, program.placement) == (Status.WRONG_VALUES, AddStatus.NOT_ADDED)
        assert "row 3 differs" in program.verdict.message
        assert world.proposer.told[0].score is None
        with world.view() as view:
            assert view.progress().verdicts == {"passed": 1, "wrong_values": 1}


class TestConfirmation:
    async def test_a_failed_confirmation_costs_the_place_and_the_former_best_stays(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=4), islands=1))
        world.proposer.make = scores(2.0, 9.0, 3.0)
        world.judge.confirm_status = lambda source: Status.CHEATING if "score=9.0" in source else Status.PASSED
        await world.run()
        cheat = world.programs()[2]
        assert cheat.evaluation is not None
        assert cheat.verdict is not None
        assert cheat.evaluation.status is Status.PASSED, "the first verdict stays on record"
        assert (cheat.verdict.status, cheat.score, cheat.placement) == (Status.CHEATING, None, AddStatus.NOT_ADDED)
        assert [p.number for p in world.recorder.bests] == [1, 2, 4]
        assert [p.number for p in world.recorder.contenders] == [1, 2, 3, 4]
        with world.view() as view:
            assert 3 not in {cell.program for cell in view.storage.cells()}
            assert view.progress().verdicts == {"passed": 3, "cheating": 1}
        assert [p.score for p in world.proposer.told] == [2.0, None, 3.0]

    async def test_the_contender_is_shown_and_the_best_is_not_yet(self, tmp_path: Path) -> None:
        seen: list[tuple[int | None, int | None]] = []
        world = World(tmp_path, settings(Caps(candidates=2)))
        world.proposer.make = scores(5.0)
        with world.create() as run:

            async def before(method: str, source: str) -> None:
                if method == "confirm":
                    progress = run.progress()
                    best, contender = progress.best, progress.contender
                    seen.append((best.number if best else None, contender.number if contender else None))

            world.judge.before = before
            await world.search(run)
            assert run.progress().contender is None
        assert seen == [(None, 1), (1, 2)]

    async def test_only_a_new_best_is_confirmed(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=4), islands=1))
        world.proposer.make = scores(0.5, 2.0, 1.5)
        await world.run()
        assert len(world.judge.confirmed) == 2

    async def test_a_confirmed_score_that_is_lower_is_what_counts(self, tmp_path: Path) -> None:
        class Sobering(FakeJudge):
            async def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
                found = await super().confirm(source, language)
                return found.model_copy(update={"score": min(found.score or 0.0, 1.5)})

        world = World(tmp_path, settings(Caps(candidates=3), islands=1), judge=Sobering())
        world.proposer.make = scores(2.0, 3.0)
        await world.run()
        assert [p.score for p in world.programs()] == [1.0, 1.5, 1.5]
        assert [p.number for p in world.recorder.bests] == [1, 2], "the third confirmed no better than the second"


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

    async def test_a_judge_that_waits_for_another_one_does_not_hang(self, tmp_path: Path) -> None:
        """However long another judge of the machine has the device."""
        released = asyncio.Event()

        class Waiting(FakeJudge):
            async def held_up_s(self, last_s: float) -> float:
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


class TestBadSeeds:
    async def test_a_seed_that_fails_is_the_users_to_mend(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.task_options = {"seed_source": fake_source(0.0, status=Status.BUILD_ERROR)}
        for go in (world.run, world.resume):
            with pytest.raises(
                UsageError, match=r"the seed program seed.py does not pass: build_error: the source"
            ) as e:
                await go()
            assert "\n" not in str(e.value)
        with world.view() as view:
            assert view.record.status is RunStatus.FAILED
        assert len(world.judge.evaluated) == 1

    async def test_a_measure_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.task_options = {"archive": (ArchiveDimension(measure="warps", low=0, high=4, bins=4),)}
        with pytest.raises(UsageError, match="archive measure 'warps' is not among those the evaluator returned"):
            await world.run()


class TestDuplicates:
    async def test_a_known_source_is_not_judged_and_its_proposer_is_told_the_verdict(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=4)))
        world.proposer.make = lambda c: fake_source(1.0) + "  \n" * c.number if c.number != 3 else fake_source(2.0)
        await world.run()
        assert len(world.judge.evaluated) == 2
        told = world.proposer.told
        assert [(p.number, p.duplicate_of, p.score) for p in told] == [(2, 1, 1.0), (3, None, 2.0), (4, 1, 1.0)]
        assert told[0].details == {"number": 2}
        with world.view() as view:
            assert view.progress().duplicates == 2
            assert view.progress().verdicts == {"passed": 2}

    async def test_a_duplicate_of_what_is_in_flight_waits_for_it(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=5), lanes=2, queue=2))
        world.proposer.make = lambda c: fake_source(2.0)
        await world.run()
        assert world.judge.evaluated == [fake_source(1.0), fake_source(2.0)]
        assert [p.duplicate_of for p in world.programs()] == [None, None, 2, 2, 2]
        assert [p.score for p in world.proposer.told] == [2.0] * 4
        assert all(p.state is ProgramState.FINISHED for p in world.programs())

    async def test_proposers_can_ask_what_is_known(self, tmp_path: Path) -> None:
        seen: list[bool] = []

        def make(context: ProposeContext) -> str:
            seen.extend((context.known(context.parent.source + " \r\n"), context.known("something else")))
            return fake_source(2.0, text=str(context.number))

        world = World(tmp_path, settings(Caps(candidates=2)), proposer=FakeProposer(make))
        await world.run()
        assert seen == [True, False]

    @pytest.mark.parametrize("make", [lambda c: None, lambda c: fake_source(1.0)])
    async def test_proposers_with_nothing_new_end_the_run(
        self, tmp_path: Path, make: Callable[..., str | None]
    ) -> None:
        world = World(tmp_path, settings(Caps(), give_up_after=10), proposer=FakeProposer(make))
        outcome = await world.run()
        assert (outcome.status, outcome.reason) == (RunStatus.FINISHED, StopReason.EXHAUSTED)

    async def test_no_text_can_stop_the_run(self, tmp_path: Path) -> None:
        world = World(tmp_path, settings(Caps(candidates=2)))
        world.proposer.make = lambda c: "# fake: score=2.0\nnul \0 surrogate \ud800\n"
        await world.run()
        assert "\0" not in world.programs()[1].source


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
        monkeypatch.setattr("evolve.loop.HEARTBEAT_S", 0.005)
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
        monkeypatch.setattr("evolve.loop.HEARTBEAT_S", 0.01)
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
