"""Walks through a recorded run step by step and has the search's own parts do each again.

The steps say when something happened, never what: islands, parents, variants, contests, migrations and resets are
worked out anew by the code that a search runs on, and what comes out is compared at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators.errors import UsageError
from evaluators.task import Task
from evolve.budget import Reservation
from evolve.database.records import DuelRecord
from evolve.database.steering import Steer, Steering
from evolve.database.steps import Opening, Shown, Step, StepKind
from evolve.errors import EvolveError
from evolve.judge_keeper import JudgeKeeper
from evolve.judging import Judging
from evolve.observer import Observer
from evolve.placing import Placer
from evolve.proposing import Proposers, WeightedProposer
from evolve.replay.comparison import compare_placements, compare_proposals, compare_runs
from evolve.replay.errors import DifferenceError, expect
from evolve.replay.judge import ANSWERS, RecordedJudge
from evolve.replay.recalled import Recalled, recalled
from evolve.replay.recording import Recording
from evolve.replay.turns import Turns
from evolve.run import SEED_NUMBER, Run
from evolve.settings import Caps
from evolve.tending import Tender
from evolve.tuning import Family, Tuning, unfinished_families
from evolve.types import Program, ProgramState, Proposal, ProposeContext, Proposer, RunStatus, StopReason

MakeProposers = Callable[[Opening], Sequence[Proposer]]
"""Makes those proposers that can work their proposals out again."""


@dataclass(frozen=True)
class Replayed:
    """What a replay came to."""

    programs: int
    """That were compared."""
    steps: int
    """That were taken."""
    difference: str = ""
    """The first difference, in one line; empty where the lineage is the same."""


async def replay(
    recording: Recording,
    directory: Path,
    task: Task,
    make_proposers: MakeProposers,
    observer: Observer,
    *,
    as_recorded: Collection[str] = (),
) -> Replayed:
    """Run a recorded search again in a new run's ``directory``; it needs no judge, no device and no key.

    Args:
        recording: The run.
        directory: Where the replayed run goes; new or empty.
        task: The recorded task; of its folder only the seed program is read, and what a proposer reads.
        make_proposers: Makes the proposers that work their proposals out again; the others' are given back by number.
        observer: Told what a search's observers are told.
        as_recorded: Names of proposers whose proposals are given back although they could be worked out again.

    Raises:
        UsageError: the recording lacks something, or the directory cannot be used.
    """
    replayer = _Replayer(recording, directory, task, make_proposers, observer, frozenset(as_recorded))
    return await replayer.run()


class _Replayer:
    """One replay. ``open`` begins a new process's worth of it: everything but the recording is made anew."""

    _run: Run
    _judging: Judging
    _placer: Placer
    _tender: Tender
    _tuning: Tuning
    _proposers: Proposers
    _turns: Turns

    def __init__(
        self,
        recording: Recording,
        directory: Path,
        task: Task,
        make_proposers: MakeProposers,
        observer: Observer,
        as_recorded: frozenset[str],
    ) -> None:
        self._recording = recording
        self._directory = directory
        self._task = task
        self._make_proposers = make_proposers
        self._observer = observer
        self._as_recorded = as_recorded
        self._judge = RecordedJudge(recording)
        self._opened = False
        self._asked: dict[int, tuple[ProposeContext, asyncio.Task[Proposal | None]]] = {}
        self._families: dict[int, Family] = {}
        self._given: Program | StopReason | None = None
        """What was handed in without having been asked for."""
        self._obeyed = 0
        self._untended = False
        self._compared = 0

    async def run(self) -> Replayed:
        """Take every step; stop at the first that comes to something else."""
        steps = self._recording.steps
        taken, difference = 0, ""
        try:
            if steps[0].kind is not StepKind.OPEN:
                raise self._recording.lack("its first step is not its opening")
            for step in steps:
                await self._take(step)
                taken += 1
            self._store_unasked()
            compare_runs(self._recording.storage, self._run.storage)  # type: ignore[arg-type]
        except DifferenceError as error:
            difference = str(error)
        except EvolveError as error:
            step = steps[min(taken, len(steps) - 1)]
            difference = f"program {step.program}: at step {taken + 1} ({step.kind.value}): {error}"
        finally:
            self._drop_asked()
            if self._opened:
                self._end(difference)
        return Replayed(self._compared, taken, difference)

    def _end(self, difference: str) -> None:
        record = self._recording.record
        status = RunStatus.INTERRUPTED if record.status is RunStatus.RUNNING else record.status
        self._run.set_status(*((RunStatus.FAILED, difference) if difference else (status, record.reason)))
        self._run.close()

    async def _take(self, step: Step) -> None:
        if step.kind in ANSWERS:
            self._judge.release(step)
        match step.kind:
            case StepKind.OPEN:
                await self._open(step)
            case StepKind.ASK:
                await self._ask(step)
            case StepKind.TURN:
                self._note(step)
                await self._turns.give(step)
            case StepKind.TAKE:
                self._hand_in(step)
            case StepKind.OBEY:
                self._obey(step)
            case StepKind.PASS | StepKind.TELL:
                await self._tell(step)
            case StepKind.JUDGE:
                await self._evaluate(step)
            case StepKind.FINISH:
                await self._finish(step)
            case StepKind.MIGRATE | StepKind.RESET:
                await self._tend(step)
            case StepKind.UNTENDED:
                self._note(step)
                self._untended = True
            case StepKind.CUT:
                self._note(step)
                self._family(step).closed = True
            case StepKind.REFUSE:
                self._refuse(step)

    async def _open(self, step: Step) -> None:
        opening = self._recording.opening(step)
        self._drop_asked()
        if self._opened:
            self._store_unasked()
            self._run.heartbeat()  # Writes the last steps.
            self._run.close()
            self._run = Run.open(self._directory, self._task, opening.settings, config=opening.config)
        else:
            self._run = Run.create(self._directory, self._task, opening.settings, config=opening.config)
            self._opened = True
        self._run.budget.caps = Caps()  # What the caps let through is in the steps.
        self._obeyed = opening.orders
        self._note(step)
        keeper = JudgeKeeper(self._judge.start)
        await keeper.open()
        self._judging = Judging(self._run, keeper, lambda text: self._observer.on_note("judge", text))
        self._placer = Placer(self._run, self._judging, self._observer)
        self._tender = Tender(self._run, self._judging, self._observer)
        self._tuning = Tuning(self._run, self._judging, self._observer)
        self._turns = Turns()
        self._proposers = Proposers(self._weighted(opening), opening.settings.search.seed, self._turns.wait)
        self._recover()

    def _weighted(self, opening: Opening) -> list[WeightedProposer]:
        again = {p.name: p for p in self._make_proposers(opening) if p.name not in self._as_recorded}
        return [
            WeightedProposer(again.get(name) or Recalled(name, self._recording), weight)
            for name, weight in opening.proposers.items()
        ]

    def _recover(self) -> None:
        """What the search does when it takes up a run."""
        self._proposers.replay(self._run.storage)
        unfinished = self._run.storage.unfinished()
        for twin in (p for p in unfinished if p.duplicate_of is not None):
            self._run.requeue_twin(twin)
        families = unfinished_families(self._run, (p for p in unfinished if p.duplicate_of is None))
        self._families = {family.structure.number: family for family in families}
        self._untended = False

    async def _ask(self, step: Step) -> None:
        context = self._run.ask() if step.other is None else self._ask_variant(step)
        expect(step.program, "its number", step.program, context.number)
        shown = _parse_shown(step)
        expect(step.program, "the island", shown.island, context.island)
        expect(step.program, "the parent shown", shown.parent, context.parent.number)
        inspirations = tuple(p.number for p in context.inspirations)
        expect(step.program, "the inspirations shown", shown.inspirations, inspirations)
        self._asked[context.number] = context, asyncio.create_task(self._propose(context))
        await asyncio.sleep(0)  # It goes on until it is the first proposer's turn.

    def _ask_variant(self, step: Step) -> ProposeContext:
        family = self._families.get(step.other or 0)
        if family is None or not self._tuning.wants_variant(family):
            raise DifferenceError(f"program {step.program}: the run tuned program {step.other} inside, the replay not")
        context = self._run.ask_variant(family.structure, family.judged_variants)
        if isinstance(context, StopReason):
            raise DifferenceError(f"program {step.program}: not asked for now: {context.value}")
        return context

    async def _propose(self, context: ProposeContext) -> Proposal | None:
        if context.variant_of is None:
            return await self._proposers.propose(context)
        if "tuner" in self._as_recorded:
            return recalled(self._recording.program(context.number))
        return await self._tuning.propose(context)

    def _hand_in(self, step: Step) -> None:
        recorded = self._recording.program(step.program or 0)
        self._given = self._run.hand_in(recalled(recorded), step.other)

    def _obey(self, step: Step) -> None:
        """What people ordered the run, as far as it had come by then."""
        self._note(step)
        records = self._recording.storage.steering().records[: step.other]
        self._run.obey(Steering.of(records))
        self._run.budget.caps = Caps()
        for record in records[self._obeyed :]:
            if record.kind is Steer.WEIGHT:
                name, _, weight = record.argument.partition("=")
                self._proposers.set_weight(name, float(weight))
        self._obeyed = len(records)

    async def _tell(self, step: Step) -> None:
        given = self._run.add_seed() if step.program == SEED_NUMBER else self._given
        if isinstance(given, Program):
            self._given = None
            expect(step.program, "its number", step.program, given.number)
            self._told(given)
            return
        if step.program not in self._asked:
            raise DifferenceError(f"program {step.program}: proposed without having been asked for")
        context, proposing = self._asked.pop(step.program)
        if not proposing.done():
            proposing.cancel()
            raise DifferenceError(f"program {step.program}: proposed by then in the recorded run, not now")
        proposal = proposing.result()
        expect(step.program, "a proposal", step.kind is StepKind.TELL, proposal is not None)
        program = self._run.tell(context, proposal)
        if program is not None:
            self._told(program)
        elif context.variant_of is not None:
            self._families[context.variant_of].closed = True

    def _told(self, program: Program) -> None:
        compare_proposals(self._recording.program(program.number), program)
        if program.state is ProgramState.FINISHED:
            self._announce(program)
        elif program.variant_of is not None:
            self._families[program.variant_of].update(program)
        elif program.duplicate_of is None:
            self._families[program.number] = Family(program)

    async def _evaluate(self, step: Step) -> None:
        family = self._family(step)
        queued, reservation = family.queued, self._judging.reserve()
        if queued is None or queued.number != step.program or not isinstance(reservation, Reservation):
            raise DifferenceError(f"program {step.program}: judged by the run, the replay has it not queued")
        family.update(await self._judging.evaluate(queued, reservation))
        self._judge.withdraw(step)

    async def _finish(self, step: Step) -> None:
        family = self._family(step)
        first = family.left[0].number if family.left else None
        expect(step.program, "the next of its family to be placed", step.program, first)
        if family.decided:
            finished = self._run.finish(family.left[0], ())
        else:
            expect(step.program, "a migration or reset due before it", self._untended, self._tender.wanted())
            if self._tuning.wants_variant(family):
                raise DifferenceError(f"program {step.program}: compared by the run, tuned further by the replay")
            finished = await self._placer.place(family.left[0])
            self._refuse_unasked(step)
            self._untended = False
        for program in finished:
            self._announce(program)
            compare_placements(self._recording.program(program.number), program)
        family.update(finished[0])
        if not family.left and family.queued is None:
            del self._families[family.structure.number]

    async def _tend(self, step: Step) -> None:
        if not self._tender.wanted():
            raise DifferenceError(f"program {step.program}: {step.kind.value} in the run, none due in the replay")
        self._untended = False
        before = self._run.migration_round
        await self._tender.tend()
        self._refuse_unasked(step)
        expect(step.program, "a migration", step.kind is StepKind.MIGRATE, self._run.migration_round > before)
        if step.kind is StepKind.RESET and step.other is not None:
            founder = self._run.population.archive(step.other).best()
            expect(step.program, "the founder", step.program, founder.number if founder else None)

    def _refuse(self, step: Step) -> None:
        """A placement or migration was broken off: what had been answered by then is kept, as it was in the run."""
        self._note(step)
        self._untended = False
        self._store_unasked()
        if step.program is not None:
            self._family(step).update(self._run.program(step.program))

    def _store_unasked(self) -> None:
        """Put in the database what the run had there when it was broken off; the next attempt will make use of it."""
        for step in self._judge.forget():
            if step.kind is StepKind.CONFIRM and step.program is not None:
                program = self._run.program(step.program)
                recorded = self._recording.program(step.program)
                if recorded.confirmation is None:
                    raise self._recording.lack(f"the confirmation of program {step.program} is missing")
                failed = recorded.judge_failed
                self._run.booking.confirmed(program, recorded.confirmation, None, judge_failed=failed)
            elif step.kind is StepKind.DUEL and step.program is not None and step.other is not None:
                duel = self._recording.duel(step.program, step.other)
                reservation = self._judging.reserve()
                assert isinstance(reservation, Reservation)  # There are no caps.
                self._run.booking.dueled(DuelRecord(step.program, step.other, duel), reservation)

    def _refuse_unasked(self, step: Step) -> None:
        """The judge's answers were all asked for; but a confirmation may be a duel's outcome, put down as a verdict."""
        for left in self._judge.forget():
            if left.kind is not StepKind.CONFIRM:
                raise DifferenceError(
                    f"program {left.program}: held a duel with program {left.other} in the run, not in the replay "
                    f"({step.kind.value})"
                )

    def _announce(self, program: Program) -> None:
        self._compared += 1
        self._proposers.tell(program)
        self._observer.on_program(program)

    def _family(self, step: Step) -> Family:
        for family in self._families.values():
            if family.has(step.program):
                return family
        raise DifferenceError(f"program {step.program}: {step.kind.value} in the run, unknown to the replay by then")

    def _note(self, step: Step) -> None:
        self._run.storage.note(step)

    def _drop_asked(self) -> None:
        for _, proposing in self._asked.values():
            proposing.cancel()
        self._asked.clear()


def _parse_shown(step: Step) -> Shown:
    try:
        return Shown.parse(step.text)
    except ValueError:
        raise UsageError(f"step {step.kind.value} of program {step.program} cannot be read: {step.text!r}") from None
