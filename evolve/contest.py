"""One contest for a cell: by a first look where that suffices, else by a duel before the judge."""

from __future__ import annotations

from dataclasses import dataclass

from evaluators.evaluation import Duel, DuelOutcome
from evolve.archive import Elite
from evolve.judging import Judging
from evolve.policies.placement import Look, first_look
from evolve.run import Run
from evolve.types import Program


@dataclass(frozen=True)
class Contest:
    """How it ended for the challenger."""

    won: bool
    failed: Duel | None = None
    """The duel in which the challenger failed."""


async def contest(
    run: Run, judging: Judging, program: Program, elite: Elite, opponent: Elite | None, *, patient: bool = False
) -> Contest:
    """Let ``program`` (as ``elite``) compete with ``opponent``. Where the judge cannot hold the duel, nobody wins.

    Raises:
        BudgetRefusedError: a cap leaves no room for the duel.
        UnquietError: noise spoilt it, and whoever asks is ``patient`` enough to ask another time.
        JudgeError: the judge cannot go on.
    """
    look = first_look(elite, opponent, run.task.metric, run.task.min_gain)
    if look is not Look.DUEL or opponent is None:
        return Contest(won=look is Look.TAKE)
    duel = await judging.duel(program, run.program(opponent.number), patient=patient)
    if duel is None:
        return Contest(won=False)
    failed = duel if duel.outcome is DuelOutcome.FAILED else None
    return Contest(won=duel.outcome is DuelOutcome.CHALLENGER, failed=failed)
