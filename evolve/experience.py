"""What a run has been through: what was tried and what came of it, kept small, for prompts and for people."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

from evaluators.evaluation import FULL_LEVEL, Evaluation, Status, Timed
from evaluators.task import Task
from evolve.types import Program

REMEMBERED_FAILURES = 200

Margins = Mapping[int, float]
"""Decided duels of one challenger: by occupant, how many times as fast it was."""


class Bounds(NamedTuple):
    """The interval of a speed-up over the baselines."""

    low: float
    high: float
    level: float = FULL_LEVEL

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self | None:
        """From the database's columns; ``None`` where no speed was measured."""
        low, high = row["speedup_low"], row["speedup_high"]
        return None if low is None or high is None else cls(low, high, row["glance_level"] or FULL_LEVEL)


@dataclass(frozen=True)
class Outcome:
    """What came of one program. Duplicates and programs that the judge itself failed on have none."""

    number: int
    island: int
    parents: tuple[int, ...]
    operator: str
    proposer: str
    status: Status
    score: float | None
    message: str
    note: str
    changes: Mapping[str, str]
    """Tunables that were changed, as ``before -> after``."""
    bounds: Bounds | None = None
    """The interval of a score that was timed."""
    margins: Margins = field(default_factory=dict)
    """Its decided duels with its parents."""
    late: bool = False
    """It failed only when it was confirmed or in a duel: on what its author must not know."""

    @classmethod
    def of(cls, program: Program, margins: Margins) -> Self | None:
        """Of a finished program and its duels; ``None`` where nothing can be learnt from it."""
        verdict = program.verdict
        if verdict is None or program.judge_failed or program.duplicate_of is not None:
            return None
        return cls(
            number=program.number,
            island=program.island,
            parents=program.parents,
            operator=program.operator,
            proposer=program.proposer,
            status=verdict.status,
            score=verdict.score,
            message=verdict.message,
            note=program.note,
            changes=_changes(program.details),
            bounds=bounds_of(verdict),
            margins={number: margins[number] for number in program.parents if number in margins},
            late=program.confirmation is not None and verdict.status is not Status.PASSED,
        )

    @classmethod
    def of_row(cls, row: Mapping[str, Any], margins: Margins) -> Self:
        """From the database's own short account of a program."""
        parents = tuple(json.loads(row["parents"]))
        return cls(
            number=row["number"],
            island=row["island"],
            parents=parents,
            operator=row["operator"],
            proposer=row["proposer"],
            status=Status(row["status"]),
            score=row["score"],
            message=row["message"],
            note=row["note"],
            changes=_changes(json.loads(row["details"])),
            bounds=Bounds.of_row(row),
            margins={number: margins[number] for number in parents if number in margins},
            late=bool(row["confirmed_later"]) and row["status"] != Status.PASSED.value,
        )


class Outcomes(Protocol):
    """Where outcomes are stored: see :meth:`evolve.database.storage.Storage.outcomes`."""

    def outcomes(self) -> list[Mapping[str, Any]]:
        """Of every finished program, in that order."""
        ...

    def margins(self) -> Mapping[int, Margins]:
        """Of every challenger."""
        ...


class Experience:
    """All outcomes of a run, in the order in which its programs finished."""

    def __init__(self, task: Task, outcomes: Iterable[Outcome] = ()) -> None:
        """Begin with ``outcomes``."""
        self._metric = task.metric
        self._min_gain = task.min_gain
        self.outcomes: list[Outcome] = []
        self._scored: dict[int, Outcome] = {}
        self._failures: deque[Outcome] = deque(maxlen=REMEMBERED_FAILURES)
        self._worked_on: set[int] = set()
        for outcome in outcomes:
            self.add(outcome)

    @classmethod
    def stored(cls, task: Task, storage: Outcomes) -> Self:
        """Of the run in a database."""
        margins = storage.margins()
        return cls(task, (Outcome.of_row(row, margins.get(row["number"], {})) for row in storage.outcomes()))

    def add(self, outcome: Outcome) -> None:
        """One more program is finished."""
        self.outcomes.append(outcome)
        self._worked_on.update(outcome.parents)
        if outcome.score is not None:
            self._scored[outcome.number] = outcome
        if outcome.status is not Status.PASSED:
            self._failures.append(outcome)

    def learn(self, program: Program, margins: Margins) -> None:
        """A program is finished, after these duels."""
        outcome = Outcome.of(program, margins)
        if outcome is not None:
            self.add(outcome)

    def failures(self, parent: int) -> list[Outcome]:
        """What failed: with this parent first, and of those the latest first."""
        latest = list(reversed(self._failures))
        return [f for f in latest if parent in f.parents] + [f for f in latest if parent not in f.parents]

    def repairable(self, island: int) -> list[Outcome]:
        """Failed programs of an island that nobody has tried to mend, the latest first.

        A program that failed only at the end cannot be mended: what it failed on is not to be known.
        """
        return [
            outcome
            for outcome in reversed(self._failures)
            if outcome.island == island
            and not outcome.late
            and outcome.number not in self._worked_on
            and outcome.status is not Status.CHEATING
            and outcome.operator != "repair"
        ]

    def work_on(self, number: int) -> None:
        """Somebody tries to mend this program: once is enough."""
        self._worked_on.add(number)

    def gain(self, outcome: Outcome) -> float | None:
        """By how much a program is better than the best of its parents, as a logarithm; ``None`` where unknown.

        Of two times only a duel or intervals apart from each other say that they differ; else it is 0. Scores that may
        be negative are compared relative to the parent's size.
        """
        before = [self._scored[n] for n in outcome.parents if n in self._scored]
        if outcome.score is None or not before:
            return None
        parent = max(before, key=lambda other: other.score or 0.0)
        if self._metric == "time":
            return shown_gain(outcome, parent)
        return gain(outcome.score, parent.score or 0.0, self._min_gain)


def shown_gain(ours: Outcome, theirs: Outcome) -> float:
    """How much faster a program is than one of its parents as far as that was shown, as a logarithm.

    A decided duel says it best: both were measured side by side. Else their intervals must lie apart.
    """
    if theirs.number in ours.margins:
        return math.log(ours.margins[theirs.number])
    if ours.score is None or theirs.score is None:
        return 0.0
    shown = faster(ours.bounds, theirs.bounds) or slower(ours.bounds, theirs.bounds)
    return gain(ours.score, theirs.score, 0.0) if shown else 0.0


def faster(ours: Bounds | None, theirs: Bounds | None) -> bool:
    """Whether intervals show a gain: they lie apart, and neither is what was seen at a glance."""
    if ours is None or theirs is None or min(ours.level, theirs.level) < FULL_LEVEL:
        return False
    return slower(theirs, ours)


def slower(ours: Bounds | None, theirs: Bounds | None) -> bool:
    """Whether our interval lies below theirs, be it what was seen at a glance.

    All rounds of one program lie below all of another as fast once in 252 times where both had the five of a glance,
    more seldom where they had more. Of what was not measured nobody can say so.
    """
    return ours is not None and theirs is not None and ours.high < theirs.low


def bounds_of(evaluation: Evaluation) -> Bounds | None:
    """The interval of a speed-up over the baselines; ``None`` where none was measured."""
    timing = evaluation.timing
    if not isinstance(timing, Timed):
        return None
    return Bounds(timing.speedup.low, timing.speedup.high, timing.speedup.level)


def gain(score: float, before: float, least: float) -> float:
    """The logarithm of the ratio of two scores, or their relative difference where they have no ratio."""
    if score > 0 and before > 0:
        change = math.log(score / before)
    else:
        change = (score - before) / max(abs(before), abs(score), 1e-12)
    return change if abs(change) > least else 0.0


def _changes(details: Mapping[str, object]) -> dict[str, str]:
    changes = details.get("changes")
    return {str(k): str(v) for k, v in changes.items()} if isinstance(changes, dict) else {}


def grouped(failures: Sequence[Outcome]) -> list[tuple[Outcome, int]]:
    """Failures of one kind as one, with how many there were; in the order of the first of each."""
    kinds: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in failures:
        kinds.setdefault((outcome.status.value, outcome.message), []).append(outcome)
    return [(same[0], len(same)) for same in kinds.values()]
