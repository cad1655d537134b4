"""What came of each operator with each model: programs better than their parents, and programs that took a cell.

The two differ: the first program of an empty cell takes it however slow it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from evaluators.evaluation import Status
from evolve.experience import Bounds, Margins, faster
from evolve.types import AddStatus

ArmName = tuple[str, str]
"""Model and operator."""


@dataclass(frozen=True)
class Gains:
    """Counts by model and operator. A structure that was tuned inside counts once, with what its variants came to."""

    improved: Mapping[ArmName, int] = field(default_factory=dict)
    """Better than every parent as far as intervals or a duel show it, or a new best of the run."""
    placed: Mapping[ArmName, int] = field(default_factory=dict)
    """Took a cell of the archive."""


@dataclass(frozen=True)
class _Finished:
    number: int
    structure: int
    """The program that it is a variant of; its own number where it is none."""
    parents: tuple[int, ...]
    arm: ArmName | None
    score: float | None
    bounds: Bounds | None
    margins: Margins
    placed: bool
    confirmed: bool

    @classmethod
    def of_row(cls, row: Mapping[str, Any], margins: Margins) -> Self:
        passed = row["status"] == Status.PASSED.value
        return cls(
            number=row["number"],
            structure=row["variant_of"] or row["number"],
            parents=tuple(json.loads(row["parents"])),
            arm=None if row["model"] is None else (row["model"], row["operator"]),
            score=row["score"] if passed else None,
            bounds=Bounds.of_row(row),
            margins=margins,
            placed=row["placement"] in {AddStatus.NEW.value, AddStatus.IMPROVE.value},
            confirmed=passed and bool(row["confirmed_later"]),
        )


def gains(
    outcomes: Sequence[Mapping[str, Any]],
    margins: Mapping[int, Margins],
    metric: Literal["time", "value"],
    min_gain: float,
) -> Gains:
    """Count over a run's outcomes and decided duels, both as its storage gives them; outcomes in order of finish."""
    finished = [_Finished.of_row(row, margins.get(row["number"], {})) for row in outcomes]
    by_number = {program.number: program for program in finished}
    better = _Comparison(metric, min_gain)
    won = _new_bests(finished, better)
    for program in finished:
        before = _before(by_number.get(program.structure, program), by_number)
        if before and all(better(program, parent) for parent in before):
            won.add(program.structure)
    placed = {program.structure for program in finished if program.placed}
    return Gains(_by_arm(won, by_number), _by_arm(placed, by_number))


@dataclass(frozen=True)
class _Comparison:
    metric: Literal["time", "value"]
    min_gain: float

    def __call__(self, ours: _Finished, theirs: _Finished) -> bool:
        """Whether it is shown that ``ours`` is better: a duel says it best, else intervals that lie apart."""
        if ours.score is None or theirs.score is None:
            return False
        if self.metric == "value":
            return ours.score > theirs.score + self.min_gain
        if theirs.number in ours.margins:
            return ours.margins[theirs.number] > 1
        return faster(ours.bounds, theirs.bounds)


def _new_bests(finished: Iterable[_Finished], better: _Comparison) -> set[int]:
    """Structures that were the run's best for a time; the seed, with which it begins, is none."""
    confirmed = [program for program in finished if program.confirmed]
    best, found = confirmed[:1], set()
    for program in confirmed[1:]:
        if better(program, best[-1]) or (best[-1].bounds is None is not program.bounds):
            best.append(program)
            found.add(program.structure)
    return found


def _before(program: _Finished, by_number: Mapping[int, _Finished]) -> list[_Finished]:
    """The scored parents; of a mended program, whose parent has no score, the parent's own."""
    parents = [by_number[number] for number in program.parents if number in by_number]
    scored = [parent for parent in parents if parent.score is not None]
    return scored or (_before(parents[0], by_number) if parents else [])


def _by_arm(structures: Iterable[int], by_number: Mapping[int, _Finished]) -> Counter[ArmName]:
    arms = (by_number[number].arm for number in structures if number in by_number)
    return Counter(arm for arm in arms if arm is not None)
