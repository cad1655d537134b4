"""What the proposer that asks language models is put together from, and the seams behind which the run stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evaluators.task import Language, Task
from evolve.database.model_records import Dialogue, Ending
from evolve.llm.bandit import Reward
from evolve.llm.ensemble import Ensemble
from evolve.llm.waiting import Waiting
from evolve.prompts.context import PromptContext
from evolve.prompts.rendering import PromptBook
from evolve.types import Program, ProgramState, ProposeContext


@dataclass(frozen=True)
class Subject:
    """What a model is to work on."""

    parent: Program
    language: Language
    """Of the program that is to come."""


class Briefing(Protocol):
    """Knows the run."""

    def subject(self, context: ProposeContext, rng: np.random.Generator, operator: str | None = None) -> Subject:
        """What to work on: the context's parent, or something that promises more or that ``operator`` wants."""
        ...

    def begin(self, subject: Subject) -> None:
        """A model is about to be asked for it; a draft that nobody could be asked for is nobody's attempt."""
        ...

    def facts(self, context: ProposeContext, subject: Subject) -> PromptContext:
        """What a prompt may tell; its operator is still to be chosen."""
        ...


class Dialogues(Protocol):
    """Where dialogues are written down: see :class:`evolve.database.storage.Storage`."""

    def open_dialogues(self) -> Sequence[Dialogue]:
        """Those that were broken off."""
        ...

    def open_dialogue(self, dialogue: Dialogue) -> None:
        """One begins."""
        ...

    def redirect_dialogue(self, number: int, model: str) -> None:
        """One that was broken off goes on with another model."""
        ...


class History(Protocol):
    """What there is to learn from again: see :class:`evolve.database.storage.Storage`."""

    def programs(self, *, state: ProgramState | None = None, proposer: str | None = None) -> Iterator[Program]:
        """Programs, where they are finished in that order."""
        ...

    def endings(self) -> Sequence[tuple[Dialogue, Ending]]:
        """Dialogues that became no program."""
        ...


class Learning(Protocol):
    """Judges what a program was worth."""

    def reward(self, program: Program) -> Reward:
        """Of a finished program: its gain over its parents, and what it cost."""
        ...

    def wasted(self, number: int) -> Reward:
        """Of a dialogue that became no program: what it cost."""
        ...


@dataclass(frozen=True)
class Parts:
    """What the proposer works with."""

    task: Task
    seed: str
    """The task's seed program."""
    ensemble: Ensemble
    book: PromptBook
    briefing: Briefing
    learning: Learning
    dialogues: Dialogues
    waiting: Waiting
    """While no model can be asked."""
