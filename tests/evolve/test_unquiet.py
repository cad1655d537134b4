"""A machine that others use: what they spoilt is measured again, a few times, and nothing of it is lost or free."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluators.evaluation import Duel, DuelOutcome, Evaluation, Interval, Status, Timed, Untimed
from evaluators.task import Language
from evolve.archive import Elite
from evolve.backlog import Backlog
from evolve.settings import Caps
from evolve.testing import FakeJudge, FakeProposer, fake_source
from evolve.tuning import Family
from evolve.types import AddStatus, ProgramState, Proposal, ProposeContext, RunStatus
from evolve.unquiet import OVERDUE_S, PAUSE_S, TRIES
from tests.evolve.searching import World, settings
from tests.evolve.test_replay import check

NOISY = Untimed(reason="too noisy: the programs waited 80 % of the time for a core", noisy=True)
FAST = fake_source(3.0, text="fast")
SLOW = fake_source(1.5, text="slow")


@dataclass
class NoisyJudge(FakeJudge):
    """Noise spoils so many answers, by method and a word of the source."""

    timed: bool = True
    spoilt: Counter[tuple[str, str]] = field(default_factory=Counter)
    timing: Untimed = NOISY

    def noise(self, method: str, source: str) -> bool:
        for (called, word), left in self.spoilt.items():
            if called == method and word in source and left > 0:
                self.spoilt[called, word] -= 1
                return True
        return False

    def unmeasured(self, found: Evaluation) -> Evaluation:
        return found.model_copy(update={"score": None, "timing": self.timing, "confirmed": False})

    async def evaluate(self, source: str, language: Language) -> Evaluation:
        found = await super().evaluate(source, language)
        return self.unmeasured(found) if self.noise("evaluate", source) else found

    async def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        found = await super().confirm(source, language, every_baseline=every_baseline)
        return self.unmeasured(found) if self.noise("confirm", source) else found

    async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        found = await super().duel(challenger, occupant)
        if self.noise("duel", challenger[0]):
            return Duel(outcome=DuelOutcome.UNDECIDED, ratio=None, noisy=True, message="too noisy", cost=self.cost)
        return found


def world_of(folder: Path, *sources: str, caps: Caps | None = None, **spoilt: int) -> World:
    """A run that proposes these; ``method_word=times`` says what noise spoils."""
    counted = Counter({tuple(name.split("_")): times for name, times in spoilt.items()})
    judge = NoisyJudge(spoilt=counted)  # type: ignore[arg-type]
    world = World(folder, settings(caps or Caps(candidates=1 + len(sources)), islands=1), judge=judge)
    world.task_options = {"seed_source": fake_source(1.0, text="seed")}
    left = iter(sources)
    world.proposer.make = lambda context: next(left, None)
    return world


async def test_a_program_without_a_score_is_measured_again_and_wins(tmp_path: Path) -> None:
    world = world_of(tmp_path, FAST, SLOW, evaluate_fast=1)
    await world.run()
    fast, slow = world.programs()[1:]
    assert (fast.score, fast.placement, fast.confirmed) == (3.0, AddStatus.IMPROVE, True)
    assert world.judge.evaluated.count(FAST) == world.judge.confirmed.count(FAST) == 1
    with world.view() as view:
        assert view.record.best == fast.number
        order = [p.number for p in view.storage.programs(state=ProgramState.FINISHED)]
        assert order == [1, slow.number, fast.number], "others do not wait for it"
        booked = Counter(entry.kind for entry in view.storage.ledger() if entry.program == fast.number)
    assert booked == {"evaluation": 1, "confirmation": 1, "duel": 1}


async def test_noise_that_does_not_end_is_the_verdict_after_some_tries(tmp_path: Path) -> None:
    world = world_of(tmp_path, FAST, evaluate_fast=1, confirm_fast=99)
    outcome = await world.run()
    assert outcome.status is RunStatus.FINISHED
    (fast,) = world.programs()[1:]
    assert (fast.state, fast.placement, fast.score) == (ProgramState.FINISHED, AddStatus.NOT_ADDED, None)
    assert fast.verdict is not None
    assert fast.verdict.timing == NOISY
    assert world.judge.confirmed.count(FAST) == TRIES
    with world.view() as view:
        booked = Counter(entry.kind for entry in view.storage.ledger() if entry.program == fast.number)
        assert view.storage.totals().charge.device_s == pytest.approx(0.02 * (3 + TRIES)), "all of it was paid for"
    assert booked == {"evaluation": 1, "confirmation": 1, "abandoned": TRIES - 1}
    assert [note for note in world.recorder.notes if note.startswith("noise: program 2: too noisy")]


@pytest.mark.parametrize("method", ["duel", "confirm"])
async def test_a_new_best_is_not_lost_to_a_busy_minute(tmp_path: Path, method: str) -> None:
    world = world_of(tmp_path, FAST, **{f"{method}_fast": 2})
    await world.run()
    fast = world.programs()[1]
    assert (fast.score, fast.confirmed) == (3.0, True)
    assert len(world.judge.dueled) == (3 if method == "duel" else 1), "a duel that was decided is not held again"
    with world.view() as view:
        assert view.record.best == fast.number


async def test_other_reasons_for_having_no_time_stand(tmp_path: Path) -> None:
    world = world_of(tmp_path, FAST, evaluate_fast=1)
    assert isinstance(world.judge, NoisyJudge)
    world.judge.timing = Untimed(reason="no GPU on this machine")
    await world.run()
    assert world.programs()[1].placement is AddStatus.NOT_ADDED
    assert FAST not in world.judge.confirmed


async def test_a_second_measurement_is_made_use_of_when_noise_spoils_what_follows_it(tmp_path: Path) -> None:
    world = world_of(tmp_path, FAST, SLOW, evaluate_fast=1, duel_fast=1)
    assert (await world.run()).status is RunStatus.FINISHED
    assert (world.programs()[1].score, world.programs()[1].confirmed) == (3.0, True)
    assert world.judge.confirmed.count(FAST) == 1, "it was paid for and is stored"
    await check(world, tmp_path / "again")


async def test_a_confirmed_program_that_fails_in_a_duel_gets_no_cell_and_ends_no_run(tmp_path: Path) -> None:
    class Failing(NoisyJudge):
        async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
            found = await super().duel(challenger, occupant)
            if challenger[0] != FAST:
                return found
            return Duel(outcome=DuelOutcome.FAILED, ratio=None, failure=Status.WRONG_VALUES, cost=self.cost)

    world = world_of(tmp_path, FAST, SLOW, evaluate_fast=1)
    world.judge = Failing(spoilt=Counter({("evaluate", "fast"): 1}))
    assert (await world.run()).status is RunStatus.FINISHED
    fast, slow = world.programs()[1:]
    assert (fast.state, fast.placement, fast.confirmed) == (ProgramState.FINISHED, AddStatus.NOT_ADDED, True)
    assert slow.score == 1.5
    await check(world, tmp_path / "again")


@pytest.mark.parametrize("method", ["duel", "confirm"])
async def test_a_replay_of_a_placement_that_noise_broke_off_while_others_went_on(tmp_path: Path, method: str) -> None:
    sources = [fake_source(2.0 + i / 4, text=f"number{i}") for i in range(6)]
    world = world_of(tmp_path, *sources, evaluate_number1=1, **{f"{method}_number1": 1, f"{method}_number3": 1})
    world.settings = settings(Caps(candidates=7), islands=2)
    await world.run()
    assert all(program.state is ProgramState.FINISHED for program in world.programs())
    await check(world, tmp_path / "again")


async def test_a_run_whose_seed_met_noise_begins_all_the_same(tmp_path: Path) -> None:
    world = world_of(tmp_path, SLOW, evaluate_seed=1, confirm_seed=1)
    assert (await world.run()).status is RunStatus.FINISHED
    assert [p.score for p in world.programs()] == [1.0, 1.5]


async def test_what_waits_when_the_run_is_stopped_is_measured_when_it_is_resumed(tmp_path: Path) -> None:
    world = world_of(tmp_path, FAST, SLOW, evaluate_fast=1)
    world.stop = asyncio.Event()

    async def stop_at_the_last(method: str, source: str) -> None:
        if (method, source) == ("confirm", FAST):
            world.stop.set()  # type: ignore[union-attr]
            await asyncio.Event().wait()

    world.judge.before = stop_at_the_last
    assert (await world.run()).status is RunStatus.INTERRUPTED
    assert world.programs()[1].state is ProgramState.JUDGED
    world.judge.before = world.stop = None
    await world.resume()
    assert (world.programs()[1].score, world.judge.evaluated.count(FAST)) == (3.0, 1)


async def test_a_cap_that_leaves_no_room_keeps_it_for_later(tmp_path: Path) -> None:
    world = world_of(tmp_path, FAST, caps=Caps(candidates=2, device_seconds=0.07), evaluate_fast=1)
    await world.run()
    assert world.programs()[1].state is ProgramState.JUDGED
    await world.resume(Caps(candidates=2, device_seconds=9.0))
    assert world.programs()[1].score == 3.0


async def test_a_replay_comes_to_the_same(tmp_path: Path) -> None:
    world = world_of(tmp_path, FAST, SLOW, evaluate_fast=1, confirm_fast=1, duel_slow=1)
    await world.run()
    await check(world, tmp_path / "again")


async def test_an_idle_judge_measures_again_while_a_proposer_takes_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing happens for as long as the proposer thinks: the clock alone says that it is time."""
    monkeypatch.setattr("evolve.unquiet.PAUSE_S", 0.05)
    confirmed = asyncio.Event()

    class Thinking(FakeProposer):
        async def propose(self, context: ProposeContext) -> Proposal | None:
            if context.number > 2:
                async with asyncio.timeout(20):
                    await confirmed.wait()
            return await super().propose(context)

    async def before(method: str, source: str) -> None:
        if (method, source) == ("confirm", FAST):
            confirmed.set()

    world = world_of(tmp_path, FAST, SLOW, evaluate_fast=1)
    world.proposer = Thinking(world.proposer.make)
    world.judge.before = before
    await world.run()
    assert [p.score for p in world.programs()] == [1.0, 3.0, 1.5]


class TestTurns:
    """Who is placed next, by the clock and by what the judge has to do."""

    def setup_method(self) -> None:
        self.now = 0.0
        self.backlog = Backlog(lambda: self.now)

    def family(self, number: int) -> Family:
        facts = {"number": number, "state": ProgramState.JUDGED, "evaluation": None, "verdict": None, "score": None}
        return Family(SimpleNamespace(**facts))  # type: ignore[arg-type]

    def next(self, *, idle: bool = False) -> int | None:
        family = self.backlog.next_to_place(idle=idle)
        return family.structure.number if family else None

    def test_what_noise_spoilt_waits_for_a_pause_and_an_idle_judge(self) -> None:
        assert self.backlog.due_s(idle=True) is None
        self.backlog.spoilt(self.family(1))
        self.now = PAUSE_S - 1
        assert self.next(idle=True) is None
        assert (self.backlog.due_s(idle=True), self.backlog.due_s(idle=False)) == (1.0, OVERDUE_S - PAUSE_S + 1)
        self.now = PAUSE_S
        assert self.next() is None
        assert self.backlog.due_s(idle=True) == 0.0
        assert self.next(idle=True) == 1

    def test_a_judge_that_is_never_idle_keeps_nobody_waiting_for_ever(self) -> None:
        self.backlog.spoilt(self.family(1))
        self.backlog.line_up(self.family(2))
        self.now = OVERDUE_S
        turns = []
        for number in range(3, 7):  # There is always somebody else to place.
            self.backlog.line_up(self.family(number))
            turns.append(self.next())
        assert turns == [2, 3, 1, 4]

    def test_a_bad_hour_keeps_nobody_else_waiting_for_long(self) -> None:
        for number in range(100):
            self.backlog.spoilt(self.family(number))
        self.now = OVERDUE_S
        turns = []
        for number in range(100, 106):
            self.backlog.line_up(self.family(number))
            turns.append(self.next())
        assert turns == [100, 0, 101, 1, 102, 2]

    def timed(self, number: int, low: float, high: float) -> Family:
        speedup = Interval(low=low, estimate=(low + high) / 2, high=high, level=0.99)
        verdict = SimpleNamespace(timing=Timed(speedup=speedup, cold=True, rounds=10), noisy=False)
        facts = {"number": number, "state": ProgramState.JUDGED, "verdict": verdict, "evaluation": verdict}
        return Family(SimpleNamespace(**facts, score=speedup.estimate))  # type: ignore[arg-type]

    def test_what_lies_wholly_above_the_best_comes_before_others_the_furthest_first(self) -> None:
        best = Elite(1, 0, 1.0, Interval(low=0.9, estimate=1.0, high=1.1, level=0.99))
        families = [(2, 0.5, 0.6), (3, 1.05, 9.0), (4, 1.2, 1.3), (5, 1.5, 1.6), (6, 1.15, 2.0)]
        for family in families:
            self.backlog.line_up(self.timed(*family))
        turns = []
        while (family := self.backlog.next_to_place(idle=False, best=best)) is not None:
            turns.append(family.structure.number)
        assert turns == [5, 4, 6, 2, 3]

    def test_where_there_is_no_best_the_order_is_that_of_judgement(self) -> None:
        for family in [(1, 0.9, 1.1), (2, 2.0, 3.0)]:
            self.backlog.line_up(self.timed(*family))
        assert [self.next(), self.next()] == [1, 2]
        for best in (None, Elite(1, 0, 5.0)):  # of a task that is scored by value
            self.backlog.line_up(self.family(3))
            self.backlog.line_up(self.timed(4, 2.0, 3.0))
            placed = [self.backlog.next_to_place(idle=False, best=best) for _ in range(2)]
            assert [family.structure.number for family in placed if family] == [3, 4]

    def test_where_the_run_would_end_nobody_waits(self) -> None:
        self.backlog.spoilt(self.family(1))
        last = self.backlog.last_to_place()
        assert last is not None
        assert last.structure.number == 1
