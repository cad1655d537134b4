"""Whether two runs are the same search, number by number."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Any

from evolve.database.reader import StorageReader
from evolve.database.records import MigrationRecord, Migrations
from evolve.database.steps import Shown, Step, StepKind
from evolve.replay.errors import DifferenceError, expect
from evolve.types import Program

_OF_A_PROPOSAL = (
    "proposer",
    "operator",
    "model",
    "island",
    "parents",
    "inspirations",
    "generation",
    "language",
    "source_hash",
    "source",
    "duplicate_of",
    "variant_of",
)
_OF_A_PLACEMENT = ("state", "placement", "score", "confirmed", "judge_failed", "profile")
_NOT_REPEATED = frozenset({"created_at", "judged_at", "finished_at", "device_s", "device_class"})
"""When it was, and where the judge ran that we gave up on."""
_PLACING = frozenset({StepKind.FINISH, StepKind.MIGRATE, StepKind.RESET})
_BEFORE = (
    _PLACING
    | {StepKind.ASK, StepKind.TURN, StepKind.PASS, StepKind.TELL, StepKind.JUDGE}
    | {
        StepKind.END,
        StepKind.WITHDRAW,
        StepKind.TAKE,
        StepKind.OBEY,
        StepKind.LEARN,
    }
)
_WITHIN = _PLACING | {StepKind.DUEL, StepKind.CONFIRM, StepKind.PROFILE}
"""A placement takes time in a search and none in a replay: what is done for it is compared by itself."""


def compare_proposals(recorded: Program, replayed: Program) -> None:
    """Where a program comes from.

    Raises:
        DifferenceError: they differ.
    """
    _compare(recorded, replayed, _OF_A_PROPOSAL)


def compare_placements(recorded: Program, replayed: Program) -> None:
    """What became of a program.

    Raises:
        DifferenceError: they differ.
    """
    _compare(recorded, replayed, _OF_A_PLACEMENT)


def compare_runs(recorded: StorageReader, replayed: StorageReader) -> None:
    """Everything that the runs came to: every program's row, every cell, migration, duel, and the best.

    Raises:
        DifferenceError: the first program that differs.
    """
    for old, new in zip_longest(recorded.table(), replayed.table()):
        number = (old or new)["number"]
        expect(number, "it", "there" if old else "missing", "there" if new else "missing")
        for name in (column for column in old if column not in _NOT_REPEATED):
            expect(number, name, old[name], new[name])
    for old_cell, new_cell in zip_longest(recorded.cells(), replayed.cells()):
        expect(old_cell.program if old_cell else new_cell.program, "the cell it holds", old_cell, new_cell)
    expect(None, "its best program", recorded.run().best, replayed.run().best)
    expect(None, "its migration", list(recorded.migrations()), list(replayed.migrations()))
    for old_end, new_end in zip_longest(_outcomes(recorded), _outcomes(replayed)):
        expect((old_end or new_end)[0], "how its dialogue ended", old_end, new_end)
    expect(None, "its islands", recorded.islands(), replayed.islands())
    for kinds in (_BEFORE, _WITHIN):
        for old_step, new_step in zip_longest(_steps(recorded, kinds), _steps(replayed, kinds)):
            expect((old_step or new_step)[1], "the order of its steps", old_step, new_step)


def _outcomes(storage: StorageReader) -> list[tuple[int, str]]:
    return [(dialogue.number, ending.outcome) for dialogue, ending in storage.endings()]


def _steps(storage: StorageReader, kinds: Collection[StepKind]) -> list[tuple[Any, ...]]:
    return [(s.kind.value, s.program, s.other, s.text) for s in storage.steps() if s.kind in kinds]


def _compare(recorded: Program, replayed: Program, names: tuple[str, ...]) -> None:
    for name in names:
        expect(recorded.number, name, getattr(recorded, name), getattr(replayed, name))


def shown_by(step: Step) -> Shown:
    """What a step says that a proposer was shown.

    Raises:
        DifferenceError: it cannot be read.
    """
    try:
        return Shown.parse(step.text)
    except ValueError:
        raise DifferenceError(f"program {step.program}: what it was shown cannot be read: {step.text!r}") from None


def moves_of(rounds: Sequence[Migrations], number: int) -> list[MigrationRecord]:
    """Who moved in one round of migration."""
    return [move for migrations in rounds if migrations.round == number for move in migrations.moves]
