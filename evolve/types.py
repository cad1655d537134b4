"""The search's nouns. Frozen: one name for one thing, in code, command line, database and docs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from evaluators.evaluation import Evaluation
from evaluators.task import Language, Task


class ProgramState(StrEnum):
    """Where a program is on its way. It only moves forward; a ``finished`` program never changes."""

    QUEUED = "queued"
    """Its source is stored; a judge has not answered yet. After a crash it is judged again from here."""
    JUDGED = "judged"
    """Its evaluation is stored; placement (perhaps a duel) is pending."""
    FINISHED = "finished"


class AddStatus(StrEnum):
    """What placing a program in an archive did."""

    NOT_ADDED = "not_added"
    IMPROVE = "improve"
    """It displaced the cell's elite."""
    NEW = "new"
    """Its cell was empty."""


@dataclass(frozen=True)
class Proposal:
    """What a proposer hands over: a source text and where it comes from. Verdicts come from the judge alone."""

    source: str
    language: Language
    operator: str
    """For instance ``seed``, ``tune``, ``mutate``, ``crossover``, ``diff``, ``rewrite``."""
    proposer: str
    """``tuner``, ``scripted``, ``llm``, ``agent``."""
    parents: tuple[int, ...] = ()
    inspirations: tuple[int, ...] = ()
    model: str | None = None
    """``provider/model`` where a language model wrote it."""
    note: str = ""
    """One line for people: what changed and why."""
    details: dict[str, object] = field(default_factory=dict)
    """JSON-able facts the proposer needs back when the verdict is told, for instance tunable values."""


@dataclass(frozen=True)
class Program:
    """One candidate of a run."""

    number: int
    """1, 2, 3, … in the order of proposal within the run."""
    source: str
    source_hash: str
    language: Language
    operator: str
    proposer: str
    state: ProgramState
    island: int
    generation: int
    """1 + the largest generation among the parents; 0 for the seed."""
    parents: tuple[int, ...] = ()
    inspirations: tuple[int, ...] = ()
    model: str | None = None
    note: str = ""
    details: dict[str, object] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    """Present from ``judged`` on."""
    placement: AddStatus | None = None
    """Present once ``finished``."""


@dataclass(frozen=True)
class ProposeContext:
    """Everything a proposer may look at: a pure view of the run at one instant."""

    task: Task
    number: int
    """The number the program will get; with the run's seed it determines ``rng``."""
    island: int
    parent: Program
    inspirations: tuple[Program, ...]
    rng: np.random.Generator
    known: Callable[[str], bool] = lambda source: False
    """Whether the run already holds a program with this source text, judged or not."""


class Proposer(Protocol):
    """Makes programs out of programs. Asynchronous because a language model is far away; pure ones just return."""

    name: str

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """A proposal, or ``None`` when this proposer has nothing (more) to offer for this parent."""
        ...

    def tell(self, program: Program) -> None:
        """A program of this proposer was judged and placed. Called once each, also for those of a resumed run."""
        ...
