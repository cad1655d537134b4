"""The archive: cells, elites, and that the best ever of a cell is never lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.evaluation import Interval
from evaluators.task import ArchiveDimension
from evolve.archive import Archive, Elite, Grid
from evolve.policies.placement import Look, first_look
from evolve.types import AddStatus

GRID = Grid(
    (
        ArchiveDimension(measure="registers", low=0, high=64, bins=4),
        ArchiveDimension(measure="launches", low=1, high=3, bins=2),
    )
)


def elite(number: int, score: float, cell: int = 0, *, width: float | None = None, level: float = 0.99) -> Elite:
    interval = None if width is None else Interval(low=score - width, estimate=score, high=score + width, level=level)
    return Elite(number, cell, score, interval)


@pytest.mark.parametrize(
    ("registers", "launches", "cell"),
    [(0, 1, 0), (15.9, 1.9, 0), (16, 1, 2), (63, 2, 7), (64, 3, 7), (-5, 0, 0), (1e300, -1e300, 6)],
)
def test_measures_are_binned_and_clipped(registers: float, launches: float, cell: int) -> None:
    assert GRID.cell({"registers": registers, "launches": launches, "other": 1.0}) == cell


def test_a_missing_measure_has_no_cell() -> None:
    assert GRID.cell({"registers": 3.0}) is None
    assert GRID.missing({"registers": 3.0}) == "launches"


def test_a_task_without_dimensions_has_one_cell() -> None:
    assert Grid(()).cell({"anything": 1e9}) == Grid(()).cell({}) == 0


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_every_measure_falls_in_one_of_the_cells(registers: float, launches: float) -> None:
    cell = GRID.cell({"registers": registers, "launches": launches})
    assert cell is not None
    assert 0 <= cell < 8


def test_putting_says_what_it_did() -> None:
    archive = Archive()
    assert archive.put(elite(1, 1.0)) is AddStatus.NEW
    assert archive.put(elite(2, 2.0)) is AddStatus.IMPROVE
    assert archive.put(elite(3, 1.0, cell=1)) is AddStatus.NEW
    assert [e.number for e in archive.ranked()] == [2, 3]


def test_of_equals_the_older_ranks_first() -> None:
    archive = Archive([elite(9, 1.0, 0), elite(4, 1.0, 1)])
    assert [e.number for e in archive.ranked()] == [4, 9]


def test_a_restart_leaves_one_elite() -> None:
    archive = Archive([elite(1, 1.0, 0), elite(2, 5.0, 1)])
    archive.restart(elite(3, 2.0, 7))
    assert [e.number for e in archive.ranked()] == [3]
    assert archive.occupant(1) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e6, 1e6)), max_size=60))
def test_the_elite_of_a_cell_is_its_best_ever(stream: list[tuple[int, float]]) -> None:
    archive = Archive()
    for number, (cell, score) in enumerate(stream, start=1):
        challenger = elite(number, score, cell)
        if first_look(challenger, archive.occupant(cell), "value", 1e-12) is Look.TAKE:
            archive.put(challenger)
        ranked = archive.ranked()
        assert list(ranked) == sorted(ranked, key=lambda e: -e.score)
    for cell in {cell for cell, _ in stream}:
        held = archive.occupant(cell)
        assert held is not None
        assert held.score >= max(score for c, score in stream if c == cell) - 1e-12


@pytest.mark.parametrize(
    ("challenger", "occupant", "metric", "look"),
    [
        (elite(2, 1.0), None, "value", Look.TAKE),
        (elite(2, 1.1), elite(1, 1.0), "value", Look.TAKE),
        (elite(2, 1.01), elite(1, 1.0), "value", Look.LEAVE),
        (elite(1, 9.0), elite(1, 1.0), "value", Look.LEAVE),
        (elite(2, 1.0, width=0.1), None, "time", Look.TAKE),
        (elite(2, 1.0, width=0.1), elite(1, 1.3, width=0.1), "time", Look.LEAVE),
        (elite(2, 1.0, width=0.1), elite(1, 1.2, width=0.1), "time", Look.DUEL),
        (elite(2, 9.0, width=0.1), elite(1, 1.2, width=0.1), "time", Look.DUEL),
        (elite(2, 9.0), elite(1, 1.2, width=0.1), "time", Look.LEAVE),
        (elite(2, 0.5, width=0.1), elite(1, 1.2), "time", Look.TAKE),
        (elite(2, 1.0, width=0.1, level=0.87), elite(1, 1.3, width=0.1), "time", Look.LEAVE),
        (elite(2, 1.3, width=0.1), elite(1, 1.0, width=0.1, level=0.87), "time", Look.DUEL),
    ],
)
def test_first_look(challenger: Elite, occupant: Elite | None, metric: str, look: Look) -> None:
    assert first_look(challenger, occupant, metric, 0.05) is look  # type: ignore[arg-type]
