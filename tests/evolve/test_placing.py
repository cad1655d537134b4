"""What judged programs get: cells, confirmations, nothing; the seed, and duplicates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evaluators.errors import UsageError
from evaluators.evaluation import Duel, DuelOutcome, Evaluation, Status
from evaluators.task import ArchiveDimension, Language
from evolve.database.records import GLOBAL
from evolve.settings import Caps
from evolve.testing import FakeJudge, FakeProposer, fake_source
from evolve.types import AddStatus, ProgramState, ProposeContext, RunStatus, StopReason
from tests.evolve.searching import World, of_proposer, scores, settings


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
