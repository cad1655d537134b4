"""From an answer to its program's number and verdict, whether a search goes on beside us or not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evolve.agents.desk import Desk
from evolve.database.mail import Answer
from evolve.database.steps import Step, StepKind
from evolve.errors import RunLockedError
from evolve.judge_keeper import JudgeFactory
from evolve.loop import DRAINED, Idle, Outcome, search
from evolve.observer import Observer
from evolve.types import Program, ProgramState, RunStatus, StopReason

LOOK_S = 0.1
"""How often we look whether a search beside us has done it."""

NUMBER_WITHIN_S = 10.0
"""How long a search beside us is given to take an answer, where nobody waits for the verdict."""


@dataclass(frozen=True)
class Standstill:
    """Why an answer goes no further for now. It is kept."""

    text: str
    """One line."""
    program: Program | None = None
    """What became of it so far."""


class Host(Protocol):
    """Judges what was handed in, where no search does."""

    async def judge(self) -> Outcome | None:
        """Take the run up, have everything judged that waits, and give it back; ``None`` while it is at that."""
        ...


@dataclass
class OwnJudge:
    """A :class:`Host` with a judge of its own."""

    desk: Desk
    start_judge: JudgeFactory
    stop: asyncio.Event
    observers: Sequence[Observer] = field(default_factory=tuple)
    linger_s: float = 0.0
    """How long the judge is kept for further answers."""

    async def judge(self) -> Outcome:
        """See :class:`Host`.

        Raises:
            RunLockedError: somebody else has just taken the run up.
        """
        idle = Idle(leases=False, linger_s=self.linger_s)
        with self.desk.open_run() as run:
            return await search(run, self.start_judge, (), observers=self.observers, stop=self.stop, idle=idle)


async def take_number(desk: Desk, answer: Answer) -> int | Standstill:
    """The number of the program that an answer became: given by the search beside us, or else by ourselves."""
    for _ in range(round(NUMBER_WITHIN_S / LOOK_S)):
        number = desk.mailbox.answer(answer.id).program
        if number is not None:
            return number
        if not desk.searching():
            refusal = _take_all(desk, answer)
            if refusal is not None:
                return Standstill(refusal)
        else:
            await asyncio.sleep(LOOK_S)
    return Standstill("the search has not taken it yet: the source is kept until it does")


async def take_verdict(desk: Desk, answer: Answer, host: Host) -> Program | Standstill:
    """The finished program that an answer became.

    Judged by the search beside us; where there is none, by ``host``. If a search ends while we wait for it, ours is
    not to take its place: somebody stopped it.
    """
    watched = False
    while True:
        program = program_of(desk, answer)
        if program is not None and program.state is ProgramState.FINISHED:
            return program
        if desk.searching():
            watched = watched or desk.mailbox.run().status is RunStatus.RUNNING
            await asyncio.sleep(LOOK_S)
            continue
        record = desk.mailbox.run()
        if watched and record.reason != DRAINED:
            return Standstill(f"the search ended ({_ended(record.status, record.reason)}): {_kept(program)}", program)
        try:
            outcome = await host.judge()
        except RunLockedError:
            continue
        if outcome is None:
            continue
        program = program_of(desk, answer)
        if outcome.text == DRAINED:
            if program is not None:
                continue
            return Standstill("a cap or leases leave it no place: the source is kept until there is one")
        if program is None or program.state is not ProgramState.FINISHED:
            return Standstill(f"{outcome.text}: {_kept(program)}", program)


def program_of(desk: Desk, answer: Answer) -> Program | None:
    """The program that an answer became; ``None`` while it waits."""
    number = desk.mailbox.answer(answer.id).program
    return None if number is None else desk.program(number)


def _take_all(desk: Desk, ours: Answer) -> str | None:
    """Make programs of all answers that wait, where nobody else has taken the run up; what forbids that with ours."""
    refusal: str | None = None
    try:
        with desk.open_run() as run:
            if run.population.best is None:
                return "the seed program comes first: the source is kept until that is judged"
            run.note_opening({})
            steering = run.storage.steering()
            run.obey(steering)
            run.storage.note(Step(StepKind.OBEY, other=len(steering.records)))
            for answer in run.storage.waiting_answers():
                taken = run.take(answer)
                if isinstance(taken, StopReason) and answer.id == ours.id:
                    refusal = f"the cap on {taken.value} is met: the source is kept until it is raised"
    except RunLockedError:
        pass
    return refusal


def _ended(status: RunStatus, reason: str) -> str:
    return "its process is gone" if status is RunStatus.RUNNING else reason or status.value


def _kept(program: Program | None) -> str:
    if program is None:
        return "the source is kept, and becomes a program when the run goes on"
    return f"it is kept as program {program.number}, and judged when the run goes on"
