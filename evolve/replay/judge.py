"""A judge that answers from a recording, and from nothing that had not been answered by then."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar

from evaluators.client import JudgeReady
from evaluators.errors import JudgeError
from evaluators.evaluation import Duel, Evaluation
from evaluators.profile import Profile
from evaluators.task import Language
from evolve.database.steps import Step, StepKind
from evolve.replay.errors import DifferenceError
from evolve.replay.recording import Recording

T = TypeVar("T")

ANSWERS = frozenset({StepKind.JUDGE, StepKind.DUEL, StepKind.NO_DUEL, StepKind.CONFIRM, StepKind.PROFILE})
"""The steps that are answers of the judge."""


_NAMES = {StepKind.JUDGE: "an evaluation", StepKind.CONFIRM: "a confirmation", StepKind.PROFILE: "a profile"}


@dataclass(frozen=True)
class Question:
    """What can be asked of a judge, by program numbers."""

    kind: StepKind
    program: int
    occupant: int | None = None

    @classmethod
    def of(cls, step: Step) -> Question:
        """The question that a step answered."""
        if step.program is None:
            raise DifferenceError(f"a step {step.kind.value} names no program")
        kind = StepKind.DUEL if step.kind is StepKind.NO_DUEL else step.kind
        return cls(kind, step.program, step.other)

    def __str__(self) -> str:
        if self.kind is StepKind.DUEL:
            return f"a duel of program {self.program} with program {self.occupant}"
        return f"{_NAMES[self.kind]} of program {self.program}"


class RecordedJudge:
    """Gives each stored answer when the replay has got to where the run had it."""

    def __init__(self, recording: Recording) -> None:
        """Nothing is answered yet."""
        self._recording = recording
        self._open: dict[Question, Step] = {}
        self._asked: set[Question] = set()

    def release(self, step: Step) -> None:
        """From here on this answer may be asked for."""
        self._open[Question.of(step)] = step

    def withdraw(self, step: Step) -> None:
        """This answer may not be asked for again."""
        self._open.pop(Question.of(step), None)

    def forget(self) -> list[Step]:
        """Nothing is answered any more; returns the answers that nobody had asked for, oldest first."""
        unasked = [step for question, step in self._open.items() if question not in self._asked]
        self._open.clear()
        self._asked.clear()
        return unasked

    async def start(self) -> RecordedJudge:
        """The same judge again: what it failed on it fails on whenever it is asked."""
        return self

    async def ready(self) -> JudgeReady:
        """See :class:`evaluators.client.Judge`."""
        environment = self._recording.environment()
        return JudgeReady(environment, self._recording.record.task_hash, baseline_us={}, floor_us={})

    async def evaluate(self, source: str, language: Language) -> Evaluation:
        """See :class:`evaluators.client.Judge`."""
        number = self._number(source, language)
        self._check(Question(StepKind.JUDGE, number))
        return _answer(self._recording.evaluation(number))

    async def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """See :class:`evaluators.client.Judge`."""
        number = self._number(source, language)
        self._check(Question(StepKind.CONFIRM, number))
        return _answer(self._recording.confirmation(number))

    async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """See :class:`evaluators.client.Judge`."""
        numbers = self._number(*challenger), self._number(*occupant)
        step = self._check(Question(StepKind.DUEL, *numbers))
        return _answer(None if step.kind is StepKind.NO_DUEL else self._recording.duel(*numbers))

    def held_up_s(self, last_s: float) -> float:
        """See :class:`evaluators.client.Judge`."""
        del last_s
        return 0.0

    def queued_s(self, last_s: float, asker: asyncio.Task[Any] | None = None) -> float:
        """See :class:`evaluators.client.Judge`."""
        del last_s, asker
        return 0.0

    def device_s(self, asker: asyncio.Task[Any] | None = None) -> float | None:
        """See :class:`evaluators.client.Judge`."""
        return None

    async def profile(self, source: str, language: Language) -> Profile | None:
        """See :class:`evaluators.client.Judge`. Where the run has none, a cap or a failure was in the way."""
        question = Question(StepKind.PROFILE, self._number(source, language))
        if question not in self._open:
            return None
        self._check(question)
        return self._recording.profile(question.program)

    async def close(self) -> None:
        """See :class:`evaluators.client.Judge`."""

    def _number(self, source: str, language: Language) -> int:
        number = self._recording.number_of(source, language)
        if number is None:
            raise DifferenceError("the replay asks the judge about a program that the run does not have")
        return number

    def _check(self, question: Question) -> Step:
        step = self._open.get(question)
        if step is None:
            raise DifferenceError(f"program {question.program}: the replay asks for {question}, the run had none here")
        self._asked.add(question)
        return step


def _answer(answer: T | None) -> T:
    if answer is None:
        raise JudgeError("the judge failed, as recorded")
    return answer
