"""What a proposal was worth: its gain over its parents, and what it cost. The bandit's food."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from evaluators.evaluation import Status
from evaluators.task import Task
from evolve.experience import bounds_of, faster, gain
from evolve.llm.bandit import Reward
from evolve.types import Program


class Records(Protocol):
    """Where costs and duels are stored: see :class:`evolve.database.storage.Storage`."""

    def dialogue_dollars(self, number: int | None = None) -> dict[int, float]:
        """What models cost, by the number of the program."""
        ...

    def family_margins(self, number: int) -> Mapping[int, float]:
        """Decided duels of a program and its variants, by occupant."""
        ...


class Rewards:
    """Reads costs from the books and scores from the programs. A :class:`evolve.proposers.llm_parts.Learning`."""

    def __init__(self, task: Task, storage: Records, program: Callable[[int], Program]) -> None:
        """Of one run; ``program`` gives its programs by number."""
        self._task = task
        self._storage = storage
        self._program = program
        self._before = storage.dialogue_dollars()
        """What was spent before this process, read at once because all of it is asked for when a run is resumed."""

    def reward(self, program: Program) -> Reward:
        """See :class:`~evolve.proposers.llm_parts.Learning`. A duplicate gains nothing and took none of the device."""
        dollars = self._dollars(program.number)
        if program.duplicate_of is not None:
            return Reward(0.0, dollars, 0.0)
        verdicts = [v for v in (program.evaluation, program.confirmation) if v is not None]
        return Reward(self._gain(program), dollars, sum(v.cost.device_s for v in verdicts))

    def wasted(self, number: int) -> Reward:
        """See :class:`~evolve.proposers.llm_parts.Learning`."""
        return Reward(0.0, self._dollars(number), 0.0)

    def _dollars(self, number: int) -> float:
        known = self._before.pop(number, None)
        return self._storage.dialogue_dollars(number).get(number, 0.0) if known is None else known

    def _gain(self, program: Program) -> float:
        verdict = program.verdict
        if verdict is None or verdict.status is not Status.PASSED or verdict.score is None:
            return 0.0
        before = self._scored_ancestor(program)
        if before is None or before.score is None:
            return 0.0
        if self._task.metric == "value":
            return max(0.0, gain(verdict.score, before.score, self._task.min_gain))
        if before.verdict is not None and faster(bounds_of(verdict), bounds_of(before.verdict)):
            return max(0.0, gain(verdict.score, before.score, 0.0))
        return max(0.0, math.log(self._storage.family_margins(program.number).get(before.number, 1.0)))

    def _scored_ancestor(self, program: Program) -> Program | None:
        """The best scored parent; of a mended program, whose parent has no score, the parent's own ancestor."""
        parents = [self._program(number) for number in program.parents]
        scored = [parent for parent in parents if parent.score is not None]
        if scored:
            return max(scored, key=lambda parent: parent.score or 0.0)
        return self._scored_ancestor(parents[0]) if parents else None
