"""The search's nouns. Frozen: one name for one thing, in code, command line, database and docs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from evaluators.evaluation import Evaluation
from evaluators.profile import Profile
from evaluators.task import Language, Task


class ProgramState(StrEnum):
    """Where a program is on its way. It only moves forward; a ``finished`` program never changes."""

    QUEUED = "queued"
    """Its source is stored; a judge has not answered yet. After a crash it is judged again from here."""
    JUDGED = "judged"
    """Its evaluation is stored; placement (perhaps a duel) is pending."""
    FINISHED = "finished"


class RunStatus(StrEnum):
    """What a run is doing. ``running`` with an old heartbeat means that its process is gone or stuck."""

    RUNNING = "running"
    FINISHED = "finished"
    """A cap, the target or the proposers ended it; the reason says which."""
    INTERRUPTED = "interrupted"
    """Somebody asked it to stop; ``resume`` goes on."""
    FAILED = "failed"
    """The judge or the task cannot be used; the reason says why."""


class StopReason(StrEnum):
    """Why a run finished. Each but the last two names the cap that was met."""

    CANDIDATES = "candidates"
    SECONDS = "seconds"
    DEVICE_SECONDS = "device_seconds"
    DOLLARS = "dollars"
    TOKENS = "tokens"
    PATIENCE = "patience"
    TARGET = "target"
    EXHAUSTED = "exhausted"
    """The proposers had nothing new to offer many times in a row."""


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
    """For instance ``seed``, ``tune``, ``mutate``, ``crossover``, ``diff``, ``rewrite``, ``agent``, ``inject``."""
    proposer: str
    """``tuner``, ``scripted``, ``llm``, ``agent``."""
    parents: tuple[int, ...] = ()
    inspirations: tuple[int, ...] = ()
    model: str | None = None
    """``provider/model`` where a language model wrote it; the agent's name where one from outside did."""
    note: str = ""
    """One line for people: what changed and why."""
    details: dict[str, object] = field(default_factory=dict)
    """JSON-able facts the proposer needs back when the verdict is told, for instance tunable values."""


@dataclass(frozen=True)
class Dropped:
    """What a proposer hands over when its attempt came to nothing, having cost something: the number stays unused."""

    reason: str
    """In one word, for instance ``refusal``, ``truncated``, ``known``."""
    message: str = ""
    """One line for people."""
    learnt: int = 0
    """From how many programs and endings the proposer had learnt before."""
    shared: bool = False
    """Others in flight end for this very reason: people are told once."""


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
    """Present from ``judged`` on. A duplicate carries its original's."""
    placement: AddStatus | None = None
    """Present once ``finished``."""
    confirmation: Evaluation | None = None
    """A second verdict that overrides the first: the confirmation of a new best, or a failure during a duel."""
    duplicate_of: int | None = None
    """The program with the same source and language that was judged in its place."""
    variant_of: int | None = None
    """The structure whose tunable values were searched, before it was compared as a structure, and gave this."""
    judge_failed: bool = False
    """The judge itself failed on it until we gave up: no evidence against its author, and no proposer is told."""
    profile: Profile | None = None
    """Where its time goes: of programs that took a cell. A duplicate carries its original's."""

    @property
    def verdict(self) -> Evaluation | None:
        """What stands: the confirmation where there is one, else the evaluation."""
        return self.confirmation or self.evaluation

    @property
    def score(self) -> float | None:
        """The verdict's score; ``None`` where it did not pass or is not judged yet."""
        return self.verdict.score if self.verdict else None

    @property
    def confirmed(self) -> bool:
        """A confirmation run agreed."""
        return self.confirmation is not None and self.confirmation.confirmed


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
    """Whether the run already holds a program with this source text in the parent's language, judged or not."""
    variant_of: int | None = None
    """The structure that is tuned inside; it is the parent, and the inspirations are its judged variants."""
    claim: Callable[[str, Language], int | None] = lambda source, language: None
    """Claims a source for this number, unless another has it up to layout, comments and local names: then that one's.

    The other may be a program of the run, or still on its way to becoming one: of two equal answers that come at the
    same time one is judged.
    """
    resumes: str = ""
    """The proposer that began this proposal before the run was broken off, and is to go on with it."""


class Proposer(Protocol):
    """Makes programs out of programs. Asynchronous because a language model is far away; pure ones just return."""

    name: str

    async def propose(self, context: ProposeContext) -> Proposal | Dropped | None:
        """What it makes of the parent.

        Returns:
            A proposal; :class:`Dropped` when an attempt came to nothing; ``None`` when this proposer has nothing (more)
            to offer for this parent, so that another may be asked.

        Raises:
            ProposerDownError: it cannot reach those that it works by way of.
            BudgetRefusedError: a cap leaves no room for what it costs, now and while nothing is in flight.
        """
        ...

    def tell(self, program: Program) -> None:
        """A program of this proposer was judged and placed. Called once each, also for those of a resumed run.

        A duplicate is told like any other, with ``duplicate_of`` set and its original's verdict. A structure that was
        tuned inside is told with the verdicts and the placement of its best variant. A program on which
        the judge itself failed (``judge_failed``) is never told. On resume every finished program of this proposer is
        told again, in the order in which they finished, before the first ``propose``.
        """
        ...
