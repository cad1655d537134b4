"""The search's only door to the judge: an asyncio client of the judge's process.

Wire: one socketpair, each message a 4-byte big-endian length and UTF-8 JSON. Both ends are trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from evaluators.evaluation import Duel, Environment, Evaluation
from evaluators.task import Language

SandboxMode = Literal["full", "reduced", "none"]


@dataclass(frozen=True)
class JudgeSettings:
    """How a judge is started."""

    task_folder: Path
    lanes: int = 1
    """How many evaluations may be in flight in the judge; timed rounds still run one at a time."""
    sandbox: SandboxMode = "full"
    """The minimum: below it the judge refuses to start. ``none`` is shown in every result."""


@dataclass(frozen=True)
class JudgeReady:
    """What a judge says of itself once it has built and measured its baselines."""

    environment: Environment
    task_hash: str
    baseline_us: dict[str, dict[str, float]]
    """Workload -> baseline -> microseconds a call."""
    floor_us: dict[str, float]
    """Workload -> the least time this device could need."""


class Judge(Protocol):
    """What the loop needs of a judge. Every method may raise :class:`~evaluators.errors.JudgeError`: our fault."""

    async def ready(self) -> JudgeReady:
        """Wait until baselines are built, checked and measured."""
        ...

    async def evaluate(self, source: str, language: Language) -> Evaluation:
        """Run the cascade on one source text."""
        ...

    async def confirm(self, source: str, language: Language) -> Evaluation:
        """A new process, new keys, a fixed number of rounds, held-out workloads too."""
        ...

    async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """Compare two programs that passed, paired and interleaved. Time-scored tasks only."""
        ...

    async def close(self) -> None:
        """End the judge and everything under it."""
        ...
