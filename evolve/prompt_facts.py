"""From a run to what one prompt is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from evaluators.evaluation import Status
from evaluators.task import Language, Task
from evolve.experience import Experience, Outcome, grouped
from evolve.lessons import lessons
from evolve.prompts.context import FailureNote, Lesson, PromptContext, ShownProgram, TaskFacts
from evolve.prompts.facts import architecture_of, device_facts, shown_profile, shown_program, task_facts
from evolve.proposers.llm_parts import Subject
from evolve.proposers.tunables import find_tunables
from evolve.settings import Share
from evolve.types import Program, ProposeContext

SHOWN_FAILURES = 8
_IN_FULL = 3
"""Of those so many with the compiler's or program's own words."""
_STALE_SHARE = 0.05
"""Lessons are counted anew once so much has been added to what they were counted from."""


class RunFacts:
    """Chooses what a model is to work on, and collects what it is told.

    A :class:`~evolve.proposers.llm_parts.Briefing`.
    """

    def __init__(
        self,
        task: Task,
        experience: Experience,
        program: Callable[[int], Program],
        hints: Callable[[], Sequence[str]] = tuple,
        repair: Share = 0.0,
        port: Share = 0.0,
    ) -> None:
        """Tell of a run.

        Args:
            task: its task.
            experience: what it has been through.
            program: one of its programs, by number.
            hints: what the person who steers it asks for.
            repair: share of proposals that mend a failed program, where there is one.
            port: share of proposals that go to another of the task's languages.
        """
        self._task = task
        self._experience = experience
        self._program = program
        self._hints = hints
        self._repair = repair
        self._port = port
        self._lessons: tuple[Lesson, ...] = ()
        self._counted = 0
        self._tasks: dict[Language, TaskFacts] = {}

    def subject(self, context: ProposeContext, rng: np.random.Generator, operator: str | None = None) -> Subject:
        """The parent, or now and then a program that failed; the parent's language, or now and then another."""
        draw = float(rng.random())
        repair = draw < self._repair if operator is None else operator == "repair"
        port = self._repair <= draw < self._repair + self._port if operator is None else operator == "port"
        broken = self._experience.repairable(context.island) if repair else []
        if broken:
            parent = self._program(broken[0].number)
            return Subject(parent, parent.language)
        others = [language for language in self._task.languages if language != context.parent.language]
        if others and port:
            return Subject(context.parent, others[int(rng.integers(len(others)))])
        return Subject(context.parent, context.parent.language)

    def begin(self, subject: Subject) -> None:
        """See :class:`~evolve.proposers.llm_parts.Briefing`: what failed is mended once."""
        self._experience.work_on(subject.parent.number)

    def facts(self, context: ProposeContext, subject: Subject) -> PromptContext:
        """Everything a prompt on the subject may tell."""
        verdict = subject.parent.verdict
        environment = verdict.environment if verdict else None
        return PromptContext(
            operator="",
            task=self._task_facts(subject.language),
            parent=self._shown(subject.parent),
            device=device_facts(environment) if environment else (),
            architecture=architecture_of(environment) if environment else "",
            profile=shown_profile(subject.parent.profile),
            inspirations=tuple(self._shown(p) for p in diverse(subject.parent, context.inspirations)),
            failures=self._failures(subject.parent.number),
            lessons=self._current_lessons(),
            hints=tuple(self._hints()),
        )

    def _task_facts(self, language: Language) -> TaskFacts:
        if language not in self._tasks:
            self._tasks[language] = task_facts(self._task, language)
        return self._tasks[language]

    def _shown(self, program: Program) -> ShownProgram:
        return shown_program(program, self._task.metric)

    def _failures(self, parent: int) -> tuple[FailureNote, ...]:
        others = [outcome for outcome in self._experience.failures(parent) if outcome.number != parent]
        kinds = grouped(others)[:SHOWN_FAILURES]
        return tuple(self._failure(outcome, times, n < _IN_FULL) for n, (outcome, times) in enumerate(kinds))

    def _failure(self, outcome: Outcome, times: int, in_full: bool) -> FailureNote:
        # What gave a cheat away, or which unseen workload a program failed on, is not for authors to know.
        if outcome.status is Status.CHEATING:
            return FailureNote(outcome.note, outcome.status.value, "it did not do the work", times=times)
        if outcome.late:
            return FailureNote(outcome.note, outcome.status.value, "it failed when it was confirmed", times=times)
        verdict = self._program(outcome.number).verdict if in_full else None
        detail = verdict.detail if verdict else ""
        return FailureNote(outcome.note, outcome.status.value, outcome.message, detail, times)

    def _current_lessons(self) -> tuple[Lesson, ...]:
        known = len(self._experience.outcomes)
        if known - self._counted > _STALE_SHARE * self._counted:
            self._lessons, self._counted = lessons(self._experience), known
        return self._lessons


def diverse(parent: Program, others: Iterable[Program]) -> list[Program]:
    """Passed programs of different structures before those that differ from another in constants alone.

    Their order otherwise stays: they were drawn from as many different cells as there are.
    """
    seen = {_structure(parent.source, parent.language)}
    new: list[Program] = []
    same: list[Program] = []
    for program in others:
        if program.score is None or program.judge_failed:
            continue
        structure = _structure(program.source, program.language)
        (same if structure in seen else new).append(program)
        seen.add(structure)
    return new + same


@lru_cache(maxsize=512)
def _structure(source: str, language: Language) -> str:
    return find_tunables(source, language, ()).structure
