"""The search's own parts around one open run, as one process has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from evolve.budget import Reservation
from evolve.database.records import DuelRecord
from evolve.database.steering import Steer, Steering
from evolve.database.steps import Step, StepKind
from evolve.judge_keeper import JudgeKeeper
from evolve.judging import Judging
from evolve.observer import Observer
from evolve.placing import Placer
from evolve.proposing import Proposers, WeightedProposer
from evolve.replay.errors import DifferenceError
from evolve.replay.judge import Question, RecordedJudge
from evolve.replay.recording import Recording
from evolve.replay.turns import RecordedTurns
from evolve.run import Run
from evolve.settings import Caps
from evolve.tending import Tender
from evolve.tuning import Family, Tuning, unfinished_families
from evolve.types import Dropped, Program, Proposal, ProposeContext


class Stage:
    """Everything that a process makes anew when it takes a run up."""

    def __init__(
        self,
        run: Run,
        recording: Recording,
        judge: RecordedJudge,
        make_proposers: Callable[[Run, RecordedTurns], Sequence[WeightedProposer]],
        observer: Observer,
    ) -> None:
        """Without caps: what they let through is in the steps."""
        self.run = run
        self.run.budget.caps = Caps()
        self._recording = recording
        self._judge = judge
        self.keeper = JudgeKeeper(judge.start)
        self.judging = Judging(run, self.keeper, lambda text: observer.on_note("judge", text))
        self.placer = Placer(run, self.judging, observer)
        self.tender = Tender(run, self.judging, observer)
        self.tuning = Tuning(run, self.judging, observer)
        self.turns = RecordedTurns()
        self.proposers = Proposers(make_proposers(run, self.turns), run.settings.search.seed, self.turns)
        self.families: dict[int, Family] = {}
        """Unfinished ones, by their structure's number."""
        self.asked: dict[int, tuple[ProposeContext, asyncio.Task[Proposal | Dropped | None]]] = {}
        self.finished: dict[int, Program] = {}
        """Those of which no proposer was told yet."""
        self.untended = False
        """A cap forbade a migration or reset that was due."""

    async def recover(self) -> None:
        """What the search does when it takes up a run."""
        await self.keeper.open()
        self.proposers.replay(self.run.storage)
        self.run.broken_off.take_up(self.proposers.names)
        unfinished = self.run.storage.unfinished()
        for twin in (p for p in unfinished if p.duplicate_of is not None):
            self.run.requeue_twin(twin)
        families = unfinished_families(self.run, (p for p in unfinished if p.duplicate_of is None))
        self.families = {family.structure.number: family for family in families}

    def family(self, step: Step) -> Family:
        """The unfinished family that a step's program is one of.

        Raises:
            DifferenceError: there is none.
        """
        for family in self.families.values():
            if family.has(step.program):
                return family
        raise DifferenceError(f"program {step.program}: {step.kind.value} in the run, unknown to the replay by then")

    def reserve(self) -> Reservation:
        """Room for a question to the judge; without caps there always is."""
        reservation = self.judging.reserve()
        if not isinstance(reservation, Reservation):
            raise DifferenceError(f"the run: the cap on {reservation.value} is in force")
        return reservation

    def obey(self, count: int, after: int) -> None:
        """Obey the first ``count`` of the orders that people gave the run; it is told the weights ``after`` so many."""
        records = self._recording.storage.steering().records[:count]
        self.run.obey(Steering.of(records))
        self.run.budget.caps = Caps()
        for record in records[after:]:
            if record.kind is Steer.WEIGHT:
                name, _, weight = record.argument.partition("=")
                self.proposers.set_weight(name, float(weight))

    def store_unasked(self) -> None:
        """A placement or migration was broken off: put in the database what the run had there by then.

        The next attempt will make use of it, as the run's did.
        """
        for step in self._judge.forget():
            if step.kind is StepKind.CONFIRM and step.program is not None:
                self._store_confirmation(step.program)
            elif step.kind is StepKind.PROFILE and step.program is not None:
                profile = self._recording.profile(step.program)
                self.run.booking.profiled(self.run.program(step.program), profile, self.reserve())
            elif step.kind is StepKind.DUEL and step.program is not None and step.other is not None:
                duel = self._recording.duel(step.program, step.other)
                self.run.booking.dueled(DuelRecord(step.program, step.other, duel), self.reserve())

    def refuse_unasked(self, step: Step) -> None:
        """A placement or migration is done: every duel and profile that the run had for it was asked for.

        A confirmation need not have been: it may be a duel's outcome, put down as a verdict.

        Raises:
            DifferenceError: one was not.
        """
        for left in self._judge.forget():
            if left.kind is not StepKind.CONFIRM:
                raise DifferenceError(
                    f"program {left.program}: the run had {Question.of(left)}, the replay has not ({step.kind.value})"
                )

    def learn(self, step: Step) -> None:
        """Tell a proposer of a program that finished a little while ago.

        Raises:
            DifferenceError: it did not.
        """
        program = self.finished.pop(step.program or 0, None)
        if program is None:
            raise DifferenceError(f"program {step.program}: finished by then in the recorded run, not now")
        self.run.storage.note(step)
        self.proposers.tell(program)

    def close(self) -> None:
        """End what is in flight, and close the run."""
        for _, proposing in self.asked.values():
            proposing.cancel()
        self.asked.clear()
        self.run.close()

    def _store_confirmation(self, number: int) -> None:
        recorded = self._recording.program(number)
        if recorded.confirmation is None:
            raise self._recording.lack(f"the confirmation of program {number} is missing")
        program = self.run.program(number)
        self.run.booking.confirmed(program, recorded.confirmation, None, judge_failed=recorded.judge_failed)
