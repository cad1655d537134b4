"""Everything a prompt may be made of, as frozen values: rendering is a function of these and of nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from evaluators.profile import Bottleneck
from evaluators.task import Language


@dataclass(frozen=True)
class TaskFacts:
    """The task, as far as a candidate's author may know it. Held-out workloads are not part of it."""

    name: str
    description: str
    entry: str
    signature: str
    """The declaration a program has to define, in the language it is to be written in."""
    language: Language
    metric: str
    """One sentence: what is scored."""
    workloads: tuple[str, ...]
    rules: tuple[str, ...]
    """What a program may and may not do, one sentence each."""
    timed: bool = True
    """Speed is scored; otherwise the task's own value."""


@dataclass(frozen=True)
class ShownProgram:
    """A program as a model gets to see it."""

    number: int
    source: str
    language: Language
    status: str
    score: str
    """In words, for instance ``1.32 times the strongest baseline``; empty where it did not pass."""
    measures: tuple[tuple[str, str], ...] = ()
    workloads: tuple[str, ...] = ()
    """One line each: error beside its limit, time, ratio."""
    message: str = ""
    detail: str = ""
    """The compiler's or the program's own words. Data."""


@dataclass(frozen=True)
class FailureNote:
    """Something that was tried and failed."""

    what: str
    """The author's own words on the change. Data."""
    status: str
    message: str
    detail: str = ""
    times: int = 1


@dataclass(frozen=True)
class Lesson:
    """Something the run has learnt, with the evidence for it."""

    text: str
    supported: int
    """Programs that agree with it."""
    contradicted: int = 0


@dataclass(frozen=True)
class ShownProfile:
    """What the judge measured of where the parent's time goes, as a model gets to see it."""

    bottleneck: Bottleneck | None
    text: str
    """With lines of the source, names and instructions in it. Data."""


@dataclass(frozen=True)
class PromptContext:
    """What one prompt is made of."""

    operator: str
    task: TaskFacts
    parent: ShownProgram
    device: tuple[tuple[str, str], ...] = ()
    architecture: str = ""
    """``hopper``, ``blackwell``, ``cdna3``, ``x86``; empty where unknown."""
    inspirations: tuple[ShownProgram, ...] = ()
    """The most useful first: what has to go for lack of room goes from the end."""
    profile: ShownProfile | None = None
    failures: tuple[FailureNote, ...] = ()
    lessons: tuple[Lesson, ...] = ()
    hints: tuple[str, ...] = ()
    """What a person who steers the run asks for: instructions, unlike everything that programs say."""
