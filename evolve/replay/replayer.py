"""Walks through a recorded run step by step and has the search's own parts do each again.

The steps say when something happened, never what: islands, parents, variants, contests, migrations and resets are
worked out anew by the code that a search runs on, and what comes out is compared at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evaluators.errors import UsageError
from evaluators.task import Task
from evolve.database.steps import Opening, Step, StepKind
from evolve.errors import EvolveError
from evolve.observer import Observer
from evolve.proposing import WeightedProposer
from evolve.replay.comparison import compare_placements, compare_proposals, compare_runs, moves_of, shown_by
from evolve.replay.errors import DifferenceError, expect
from evolve.replay.judge import ANSWERS, RecordedJudge
from evolve.replay.recalled import Recalled, recalled
from evolve.replay.recording import Recording, open_recording
from evolve.replay.stage import Stage
from evolve.replay.turns import RecordedTurns
from evolve.run import SEED_NUMBER, Run
from evolve.tuning import Family
from evolve.types import Dropped, Program, ProgramState, Proposal, ProposeContext, Proposer, RunStatus, StopReason

LLM = "llm"
Asked = tuple[ProposeContext, asyncio.Task[Proposal | Dropped | None]]
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
    """One replay: where it has got to."""

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
        self._stage: Stage | None = None
        self._given: Program | StopReason | None = None
        """What was handed in without having been asked for."""
        self._obeyed = 0
        self._compared = 0
        self._taking: dict[StepKind, Callable[[Stage, Step], Awaitable[None]]] = {
            StepKind.ASK: self._ask,
            StepKind.TURN: self._turn,
            StepKind.END: self._turn_ends,
            StepKind.WITHDRAW: self._withdraw,
            StepKind.PASS: self._tell,
            StepKind.TELL: self._tell,
            StepKind.TAKE: self._take_answer,
            StepKind.OBEY: self._obey,
            StepKind.JUDGE: self._evaluate,
            StepKind.CUT: self._cut,
            StepKind.UNTENDED: self._leave_untended,
            StepKind.FINISH: self._finish,
            StepKind.LEARN: self._learn,
            StepKind.MIGRATE: self._tend,
            StepKind.RESET: self._tend,
            StepKind.REFUSE: self._refuse,
        }

    async def run(self) -> Replayed:
        """Take every step; stop at the first that comes to something else."""
        steps = self._recording.steps
        taken, difference = 0, ""
        try:
            for step in steps:
                await self._take(step)
                taken += 1
            if self._stage is not None:
                self._stage.store_unasked()
                self._stage.run.heartbeat()  # Writes the last steps.
                self._compare()
        except DifferenceError as error:
            difference = str(error)
        except UsageError as error:
            difference = str(error)
            raise
        except EvolveError as error:
            step = steps[min(taken, len(steps) - 1)]
            difference = f"program {step.program}: at step {taken + 1} ({step.kind.value}): {error}"
        finally:
            if self._stage is not None:
                self._end(self._stage, difference)
        return Replayed(self._compared, taken, difference)

    def _compare(self) -> None:
        replayed = open_recording(self._directory)
        try:
            compare_runs(self._recording.storage, replayed.storage)
        finally:
            replayed.storage.close()

    def _end(self, stage: Stage, difference: str) -> None:
        record = self._recording.record
        status = RunStatus.INTERRUPTED if record.status is RunStatus.RUNNING else record.status
        stage.run.set_status(*((RunStatus.FAILED, difference) if difference else (status, record.reason)))
        stage.close()

    async def _take(self, step: Step) -> None:
        if step.kind is StepKind.OPEN:
            await self._open(step)
            return
        if self._stage is None:
            raise self._recording.lack("its first step is not its opening")
        if step.kind in ANSWERS:
            self._judge.release(step)
        if step.kind in self._taking:
            await self._taking[step.kind](self._stage, step)

    async def _open(self, step: Step) -> None:
        opening = self._recording.opening(step)
        if self._stage is None:
            run = Run.create(self._directory, self._task, opening.settings, config=opening.config)
        else:
            self._stage.store_unasked()
            self._stage.run.heartbeat()  # Writes the last steps.
            self._stage.close()
            run = Run.open(self._directory, self._task, opening.settings, config=opening.config)
        self._stage = Stage(run, self._recording, self._judge, partial(self._weighted, opening), self._observer)
        self._obeyed = opening.orders
        run.storage.note(step)
        await self._stage.recover()

    def _weighted(self, opening: Opening, run: Run, turns: RecordedTurns) -> list[WeightedProposer]:
        everybody: list[Proposer] = [*self._make_proposers(opening)]
        if LLM in opening.proposers:
            from evolve.replay.llm import RecordedLlm  # noqa: PLC0415 - reads prompts and models, which few runs have

            everybody.append(RecordedLlm(self._recording, run, turns))
        again = {p.name: p for p in everybody if p.name not in self._as_recorded}
        return [
            WeightedProposer(again.get(name) or Recalled(name, self._recording), weight)
            for name, weight in opening.proposers.items()
        ]

    async def _ask(self, stage: Stage, step: Step) -> None:
        context = stage.run.ask() if step.other is None else self._ask_variant(stage, step)
        expect(step.program, "its number", step.program, context.number)
        shown = shown_by(step)
        expect(step.program, "the island", shown.island, context.island)
        expect(step.program, "the parent shown", shown.parent, context.parent.number)
        inspirations = tuple(p.number for p in context.inspirations)
        expect(step.program, "the inspirations shown", shown.inspirations, inspirations)
        stage.asked[context.number] = context, asyncio.create_task(self._propose(stage, context))
        await asyncio.sleep(0)  # It goes on until it is the first proposer's turn.

    def _ask_variant(self, stage: Stage, step: Step) -> ProposeContext:
        family = stage.families.get(step.other or 0)
        if family is None or not stage.tuning.wants_variant(family):
            raise DifferenceError(f"program {step.program}: the run tuned program {step.other} inside, the replay not")
        context = stage.run.ask_variant(family.structure, family.judged_variants)
        if isinstance(context, StopReason):
            raise DifferenceError(f"program {step.program}: not asked for now: {context.value}")
        return context

    async def _propose(self, stage: Stage, context: ProposeContext) -> Proposal | Dropped | None:
        if context.variant_of is None:
            return await stage.proposers.propose(context)
        if "tuner" in self._as_recorded:
            return recalled(self._recording.program(context.number))
        return await stage.tuning.propose(context)

    async def _turn(self, stage: Stage, step: Step) -> None:
        stage.run.storage.note(step)
        await stage.turns.give(step)

    async def _turn_ends(self, stage: Stage, step: Step) -> None:
        stage.run.storage.note(step)
        await stage.turns.answer(step)

    async def _withdraw(self, stage: Stage, step: Step) -> None:
        context, proposing = self._asked(stage, step)
        proposing.cancel()
        stage.run.withdraw(context)

    async def _take_answer(self, stage: Stage, step: Step) -> None:
        self._given = stage.run.hand_in(recalled(self._recording.program(step.program or 0)), step.other)

    async def _obey(self, stage: Stage, step: Step) -> None:
        stage.run.storage.note(step)
        stage.obey(step.other or 0, self._obeyed)
        self._obeyed = step.other or 0

    async def _tell(self, stage: Stage, step: Step) -> None:
        given = stage.run.add_seed() if step.program == SEED_NUMBER else self._given
        if isinstance(given, Program):
            self._given = None
            self._told(stage, step, given)
            return
        context, proposing = self._asked(stage, step)
        if not proposing.done():
            proposing.cancel()
            raise DifferenceError(f"program {step.program}: proposed by then in the recorded run, not now")
        proposal = proposing.result()
        if step.kind is StepKind.TELL:
            self._recording.program(context.number)  # It is there, or that is said.
        expect(step.program, "a proposal", step.kind is StepKind.TELL, isinstance(proposal, Proposal))
        program = stage.run.tell(context, proposal)
        if program is not None:
            self._told(stage, step, program)
        elif context.variant_of is not None:
            stage.families[context.variant_of].closed = True

    def _asked(self, stage: Stage, step: Step) -> Asked:
        if step.program not in stage.asked:
            raise DifferenceError(f"program {step.program}: {step.kind.value} without having been asked for")
        return stage.asked.pop(step.program)

    def _told(self, stage: Stage, step: Step, program: Program) -> None:
        expect(step.program, "its number", step.program, program.number)
        compare_proposals(self._recording.program(program.number), program)
        if program.state is ProgramState.FINISHED:
            self._announce(stage, program)
        elif program.variant_of is not None:
            stage.families[program.variant_of].update(program)
        elif program.duplicate_of is None:
            stage.families[program.number] = Family(program)

    async def _evaluate(self, stage: Stage, step: Step) -> None:
        family = stage.family(step)
        queued = family.queued
        if queued is None or queued.number != step.program:
            raise DifferenceError(f"program {step.program}: judged by the run, the replay has it not queued")
        family.update(await stage.judging.evaluate(queued, stage.reserve()))
        self._judge.withdraw(step)

    async def _cut(self, stage: Stage, step: Step) -> None:
        stage.run.storage.note(step)
        stage.family(step).closed = True

    async def _leave_untended(self, stage: Stage, step: Step) -> None:
        stage.run.storage.note(step)
        stage.untended = True

    async def _finish(self, stage: Stage, step: Step) -> None:
        family = stage.family(step)
        first = family.left[0].number if family.left else None
        expect(step.program, "the next of its family to be placed", step.program, first)
        if family.decided:
            finished = stage.run.finish(family.left[0], ())
        else:
            expect(step.program, "a migration or reset due before it", stage.untended, stage.tender.wanted())
            if stage.tuning.wants_variant(family):
                raise DifferenceError(f"program {step.program}: compared by the run, tuned further by the replay")
            finished = await stage.placer.place(family.left[0])
            stage.refuse_unasked(step)
            stage.untended = False
        for program in finished:
            self._announce(stage, program)
            compare_placements(self._recording.program(program.number), program)
        family.update(finished[0])
        if not family.left and family.queued is None:
            del stage.families[family.structure.number]

    async def _learn(self, stage: Stage, step: Step) -> None:
        stage.learn(step)

    async def _tend(self, stage: Stage, step: Step) -> None:
        if not stage.tender.wanted():
            raise DifferenceError(f"program {step.program}: {step.kind.value} in the run, none due in the replay")
        before = stage.run.migration_round
        await stage.tender.tend()
        stage.refuse_unasked(step)
        stage.untended = False
        if step.kind is StepKind.MIGRATE:
            recorded, replayed = self._recording.storage.migrations(), stage.run.storage.migrations()
            expect(None, f"migration {step.other}", moves_of(recorded, before + 1), moves_of(replayed, before + 1))
        expect(step.program, "a migration", step.kind is StepKind.MIGRATE, stage.run.migration_round > before)
        if step.kind is StepKind.RESET and step.other is not None:
            founder = stage.run.population.archive(step.other).best()
            expect(step.program, "the founder", step.program, founder.number if founder else None)

    async def _refuse(self, stage: Stage, step: Step) -> None:
        stage.run.storage.note(step)
        stage.untended = False
        stage.store_unasked()
        if step.program is not None:
            stage.family(step).update(stage.run.program(step.program))

    def _announce(self, stage: Stage, program: Program) -> None:
        self._compared += 1
        stage.finished[program.number] = program
        self._observer.on_program(program)
