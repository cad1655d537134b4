"""The search loop: asynchronous, steady state, one process.

Nothing waits for a generation to end. Proposals, evaluations and one placement are in flight as tasks; whenever one of
them ends, its result is taken in and whatever there is room for is launched. All state that matters is in the database
before the next launch, so the loop can be broken off anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from evolve.flow import DRAINED, Flow, Outcome
from evolve.inbox import Idle, Inbox
from evolve.judge_keeper import JudgeFactory, JudgeKeeper
from evolve.judging import ready_deadline_s
from evolve.log_file import LogFile
from evolve.observer import Observer, Observers
from evolve.proposing import NotedTurns, Proposers, WeightedProposer
from evolve.run import Run
from evolve.types import RunStatus

__all__ = ["DRAINED", "Idle", "JudgeFactory", "Outcome", "WeightedProposer", "search"]


async def search(
    run: Run,
    start_judge: JudgeFactory,
    proposers: Sequence[WeightedProposer],
    *,
    observers: Sequence[Observer] = (),
    stop: asyncio.Event | None = None,
    idle: Idle | None = None,
) -> Outcome:
    """Search until a cap is met, the proposers are exhausted and no agent is waited for, or ``stop`` is set.

    New and resumed runs alike: what a crash left is finished first. On ``stop``, and at the cap on wall-clock time,
    nothing more is launched and what the judge has in hand is abandoned (it stays queued). The judge is closed at the
    end. What agents and people outside send is taken in all the while; ``idle`` says how long they are waited for.

    Raises:
        UsageError: the seed program does not pass, or the task's archive names a measure that is not there.
        JudgeError: the judge cannot be started, or cannot go on.
    """
    with LogFile(run.directory.log) as log:
        everybody = Observers((log, *observers))
        keeper = JudgeKeeper(start_judge, ready_deadline_s(run.task))
        chosen = Proposers(proposers, run.settings.search.seed, NotedTurns(run.storage))
        inbox = Inbox(run, chosen, everybody, idle or Idle())
        loop = Flow(run, keeper, chosen, inbox, everybody, stop or asyncio.Event())
        outcome = Outcome(RunStatus.FAILED, None, "it ended without a reason")
        try:
            outcome = await loop.run()
        except asyncio.CancelledError:
            outcome = Outcome(RunStatus.INTERRUPTED, None, "cancelled")
            raise
        except BaseException as error:
            outcome = Outcome(RunStatus.FAILED, None, " ".join(str(error).split()) or type(error).__name__)
            raise
        finally:
            await loop.end(outcome)
        return outcome
