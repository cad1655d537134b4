"""The search loop: asynchronous, steady state, one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from evaluators.client import Judge
from evolve.observer import Observer
from evolve.run import Run
from evolve.types import Proposer, RunStatus, StopReason

JudgeFactory = Callable[[], Awaitable[Judge]]
"""Starts a judge. Called again when one died."""


@dataclass(frozen=True)
class WeightedProposer:
    """A proposer and its share of the proposals."""

    proposer: Proposer
    weight: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """How a search ended."""

    status: RunStatus
    reason: StopReason | None
    """The cap that was met, where ``finished``."""
    text: str
    """One line for people."""


async def search(
    run: Run,
    start_judge: JudgeFactory,
    proposers: Sequence[WeightedProposer],
    *,
    observers: Sequence[Observer] = (),
    stop: asyncio.Event | None = None,
) -> Outcome:
    """Search until a cap is met, the proposers are exhausted, or ``stop`` is set.

    New and resumed runs alike: what a crash left is finished first. On ``stop`` nothing more is launched, what the
    judge has in hand is abandoned (it stays queued) and the run is ``interrupted``. The judge is closed at the end.

    Raises:
        UsageError: the seed program does not pass, or the task's archive names a measure that is not there.
        JudgeError: the judge cannot be started.
    """
    raise NotImplementedError
