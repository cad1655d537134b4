"""Questions to the judge: reserved beforehand, answered within a deadline, tried again where we failed, stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from evaluators.client import Judge
from evaluators.errors import JudgeError, TaskError
from evaluators.evaluation import Cost, Duel, DuelOutcome, Evaluation, Stage, Status, Untimed
from evaluators.task import Task
from evolve.budget import Charge, Reservation
from evolve.database.records import DuelRecord
from evolve.database.steps import Step, StepKind
from evolve.errors import BudgetRefusedError, JudgeUnavailableError, UnquietError
from evolve.judge_keeper import DeviceSpentError, JudgeKeeper, TaskFailedError, Use
from evolve.run import SEED_NUMBER, Run
from evolve.types import Program, StopReason

TRIES = 3
"""How many times one program may meet a failure of the judge before it counts as its own."""

CALLS_PER_WORKLOAD = 30
"""Calls at the limit that a workload may take, rounds and checks together, before the judge counts as hung."""

LEAST_ROOM_S, ROOM_FACTOR = 120.0, 2.0
"""Beside others a question is given so much of the device, or so many times what the dearest evaluation took: a
confirmation takes longer than that did, and one that is broken off ends the judge, and with it what the others ask."""

T = TypeVar("T", Evaluation, Duel)


def deadline_s(task: Task, configured: float | None) -> float:
    """After so many seconds without an answer the judge counts as hung: the worst case of one question."""
    if configured is not None:
        return configured
    limits = task.limits
    per_workload = limits.import_s + limits.prepare_s + CALLS_PER_WORKLOAD * limits.call_s
    return limits.build_s + max(1, len(task.workloads)) * per_workload


def ready_deadline_s(task: Task) -> float:
    """After so many seconds a judge that was started counts as hung: it builds, checks and times every baseline."""
    return (2 + len(task.baselines)) * deadline_s(task, None)


class Judging:
    """Asks the judge on behalf of a run. Every method leaves the answer and its cost in the database."""

    def __init__(
        self,
        run: Run,
        keeper: JudgeKeeper,
        note: Callable[[str], None],
    ) -> None:
        """``note`` gets one line whenever the judge failed."""
        self._run = run
        self._keeper = keeper
        self._note = note
        self._failure = ""
        """Of the judge, the last there was."""
        self._deadline_s = deadline_s(run.task, run.settings.search.evaluation_timeout_s)
        lanes = run.settings.search.lanes_of(run.task)
        self._places = lanes + 1 if lanes > 1 else 1
        """Questions that are asked side by side: one in each lane, and what is placed."""

    def reserve(self) -> Reservation | StopReason:
        """Reserve the worst case of one question, or say which cap forbids it.

        Where the cap on device time has no room for the worst case of all that may be asked side by side, each is
        promised its share of what remains, and broken off when it has had that: but never less beside others than it
        will need if it is no trouble. The last one alone is promised what remains, as long as the dearest evaluation
        so far would fit in.
        """
        budget = self._run.budget
        worst = self._deadline_s
        remaining = budget.remaining_device_s()
        if remaining is not None and remaining < self._places * worst:
            largest = self._run.booking.largest_device_s
            room = max(LEAST_ROOM_S, ROOM_FACTOR * largest) if self._places > 1 else 0.0
            crowded = remaining < min(room, worst) and budget.promised.device_s > 0
            if remaining <= 0 or remaining < min(largest, worst) or crowded:
                return StopReason.DEVICE_SECONDS
            worst = min(worst, remaining, max(remaining / self._places, room))
        return budget.reserve(Charge(device_s=worst))

    async def evaluate(self, program: Program, reservation: Reservation) -> Program:
        """Have a queued program judged; returns it as stored: ``judged``.

        Raises:
            BudgetRefusedError: a cap broke it off; it stays queued.
            TaskError: the task's evaluator failed on the seed program.
            JudgeError: the judge cannot go on, or failed on the seed program.
        """
        banned = self._run.bans.objection(program.source) if program.number != SEED_NUMBER else None
        if banned is not None:
            self._run.budget.settle(reservation)
            return self._run.booking.judged(program, self._said(program, Status.REJECTED, Stage.LINT, banned), None)
        answer = await self._ask(
            program, reservation, lambda judge: judge.evaluate(program.source, program.language), _failed_evaluation
        )
        if answer is not None:
            return self._run.booking.judged(program, *answer)
        if program.number == SEED_NUMBER:
            seed = self._run.task.seed_program
            raise JudgeError(f"the judge failed {TRIES} times on the seed program {seed}: {self._failure}")
        return self._run.booking.judged(program, self._given_up(program, Stage.LINT), None, judge_failed=True)

    async def confirm(self, program: Program, *, patient: bool = False) -> Program:
        """Have a judged program confirmed; returns it with the second verdict, as stored.

        Raises:
            BudgetRefusedError: a cap leaves no room; the program stays judged.
            UnquietError: noise spoilt it, and whoever asks is ``patient`` enough to ask another time.
            JudgeError: the judge cannot go on.
        """
        answer = await self._ask(
            program, self._reserved(), lambda judge: judge.confirm(program.source, program.language), _failed_evaluation
        )
        if answer is not None:
            found, reservation = answer
            if patient and isinstance(found.timing, Untimed) and found.noisy:
                self._spoilt(program, reservation, found.cost, found.timing.reason)
            return self._run.booking.confirmed(program, found, reservation)
        given_up = self._given_up(program, Stage.CONFIRMATION)
        return self._run.booking.confirmed(program, given_up, None, judge_failed=True)

    async def duel(self, challenger: Program, occupant: Program, *, patient: bool = False) -> Duel | None:
        """Have two passed programs compared, or take the stored result; ``None`` where the judge failed.

        Raises:
            BudgetRefusedError: a cap leaves no room.
            UnquietError: noise spoilt it, and whoever asks is ``patient`` enough to ask another time.
            JudgeError: the judge cannot go on.
        """
        for record in self._run.storage.duels(challenger.number):
            if record.occupant == occupant.number:
                return record.duel
        pair = (challenger.source, challenger.language), (occupant.source, occupant.language)
        answer = await self._ask(challenger, self._reserved(), lambda judge: judge.duel(*pair), _failed_duel)
        if answer is None:
            self._run.storage.note(Step(StepKind.NO_DUEL, challenger.number, occupant.number))
            return None
        duel, reservation = answer
        if patient and duel.noisy:
            self._spoilt(challenger, reservation, duel.cost, duel.message)
        self._run.booking.dueled(DuelRecord(challenger.number, occupant.number, duel), reservation)
        return duel

    async def profile(self, program: Program) -> Program:
        """Have a judged program profiled; returns it as it is where a cap leaves no room, or the judge has nothing.

        A profile is worth one try: a program is as good without.

        Raises:
            JudgeUnavailableError: the judge cannot go on.
        """
        reservation = self.reserve()
        if isinstance(reservation, StopReason):
            return program
        use = Use()
        try:
            profile = await self._keeper.call(
                lambda judge: judge.profile(program.source, program.language),
                self._deadline_s,
                device_s=reservation.worst.device_s,
                use=use,
            )
        except JudgeUnavailableError:
            self._run.budget.settle(reservation)
            raise
        except JudgeError as error:
            self._run.booking.abandoned(program, reservation, use.cost)
            self._note(f"program {program.number}: the judge failed to profile it: {error}")
            return program
        except asyncio.CancelledError:
            self._run.booking.abandoned(program, reservation, use.cost)
            raise
        if profile is None:
            self._run.budget.settle(reservation)
            return program
        return self._run.booking.profiled(program, profile, reservation)

    def fail_in_duel(self, program: Program, duel: Duel) -> Program:
        """A judged program failed in a duel: that becomes its verdict."""
        message = f"failed in a duel: {duel.message}" if duel.message else "failed in a duel"
        evaluation = self._said(program, duel.failure or Status.RUNTIME_ERROR, Stage.ROUNDS, message)
        return self._run.booking.confirmed(program, evaluation, None)

    def _spoilt(self, program: Program, reservation: Reservation, cost: Cost, why: str) -> NoReturn:
        self._run.booking.abandoned(program, reservation, cost)
        raise UnquietError(f"program {program.number}: {why}")

    def _reserved(self) -> Reservation:
        reservation = self.reserve()
        if isinstance(reservation, StopReason):
            raise BudgetRefusedError(reservation)
        return reservation

    async def _ask(
        self,
        program: Program,
        reservation: Reservation,
        question: Callable[[Judge], Awaitable[T]],
        failure_of: Callable[[T], str | None],
    ) -> tuple[T, Reservation] | None:
        """Ask up to :data:`TRIES` times; ``None`` when the judge failed every time. A retry has the judge alone."""
        tries = 0
        while True:
            use = Use()
            try:
                worst_s = reservation.worst.device_s
                answer = await self._keeper.call(question, self._deadline_s, device_s=worst_s, alone=tries > 0, use=use)
            except JudgeUnavailableError:
                self._run.budget.settle(reservation)
                raise
            except JudgeError as error:
                if isinstance(error, TaskFailedError) and program.number == SEED_NUMBER:
                    self._run.booking.abandoned(program, reservation, use.cost)
                    raise TaskError(str(error)) from error
                if isinstance(error, DeviceSpentError):
                    self._run.booking.cut_short(program, reservation, use.cost)
                    raise BudgetRefusedError(StopReason.DEVICE_SECONDS) from None
                failure: str | None = str(error)
            except asyncio.CancelledError:
                self._run.booking.abandoned(program, reservation, use.cost)
                raise
            else:
                failure = failure_of(answer)
                if failure is None:
                    return answer, reservation
                use.cost = answer.cost
                await self._keeper.discard()
            tries = self._failed(program, reservation, use.cost, failure or "no reason given", tries)
            if tries >= TRIES:
                return None
            reservation = self._reserved()

    def _failed(self, program: Program, reservation: Reservation, cost: Cost, text: str, tries: int) -> int:
        """Book a failure of the judge; returns how many this program has met, those before a crash included."""
        self._run.booking.attempted(program, reservation, cost, text)
        self._failure = text
        self._note(f"program {program.number}: the judge failed: {text}")
        if program.evaluation is None:
            return self._run.storage.attempts(program.number)
        return tries + 1

    def _given_up(self, program: Program, stage: Stage) -> Evaluation:
        return self._said(program, Status.RUNTIME_ERROR, stage, f"the judge failed {TRIES} times on it")

    def _said(self, program: Program, status: Status, stage: Stage, message: str) -> Evaluation:
        """A verdict that the judge was not asked for, or did not put in words itself."""
        return Evaluation(
            status=status,
            stage=stage,
            task_hash=self._run.task.hash,
            source_hash=program.source_hash,
            message=message,
            environment=self._keeper.ready.environment,
        )


def _failed_evaluation(evaluation: Evaluation) -> str | None:
    return (evaluation.message or "infra_error") if evaluation.status is Status.INFRA_ERROR else None


def _failed_duel(duel: Duel) -> str | None:
    failed = duel.outcome is DuelOutcome.FAILED and duel.failure is Status.INFRA_ERROR
    return (duel.message or "infra_error") if failed else None
