"""Selection, migration and resets: pure decisions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.archive import Archive, Elite
from evolve.database.records import IslandRecord
from evolve.island import Island
from evolve.policies.islands import choose_founder, choose_migrants, island_of, migration_due, stagnant_island
from evolve.policies.selection import choose_inspirations, choose_parent
from evolve.streams import Stream, stream


def ranked(cells: int) -> tuple[Elite, ...]:
    return tuple(Elite(number, cell, float(-cell)) for cell, number in enumerate(range(1, cells + 1)))


def island(number: int, elites: tuple[Elite, ...], stagnant: int = 0, resets: int = 0) -> Island:
    return Island(IslandRecord(number, stagnant=stagnant, resets=resets), Archive(elites))


def draws(explore: float, cells: int = 5, times: int = 4000) -> Counter[int]:
    rng = np.random.default_rng(1)
    return Counter(choose_parent(ranked(cells), explore, rng).number for _ in range(times))


def test_exploring_draws_every_cell_alike() -> None:
    counts = draws(1.0)
    assert set(counts) == {1, 2, 3, 4, 5}
    assert max(counts.values()) < 1.25 * min(counts.values())


def test_exploiting_prefers_the_better_and_excludes_nobody() -> None:
    counts = draws(0.0)
    assert [number for number, _ in counts.most_common()] == [1, 2, 3, 4, 5]
    assert counts[1] / counts[5] == pytest.approx(5, rel=0.3)


def test_a_parent_needs_an_elite() -> None:
    with pytest.raises(ValueError, match="no elite"):
        choose_parent((), 0.5, np.random.default_rng(1))


@given(st.integers(1, 20), st.integers(0, 6), st.integers(0, 2**32))
def test_inspirations_are_different_and_come_from_different_cells(cells: int, count: int, seed: int) -> None:
    elites = ranked(cells)
    parent = elites[seed % cells]
    chosen = choose_inspirations(parent, (*elites, *elites), count, np.random.default_rng(seed))
    assert len(chosen) == min(count, cells - 1)
    assert len({e.cell for e in chosen}) == len(chosen)
    assert parent not in chosen


def test_a_second_from_a_cell_only_when_every_cell_gave_one() -> None:
    parent = Elite(1, 0, 9.0)
    others = [Elite(2, 0, 1.0), Elite(3, 1, 1.0), Elite(4, 1, 2.0), Elite(5, 2, 1.0)]
    for seed in range(20):
        chosen = choose_inspirations(parent, others, 3, np.random.default_rng(seed))
        assert {e.cell for e in chosen[:2]} == {1, 2}, "the parent's own cell comes last"
        assert chosen[2].number == 2
    assert {e.number for e in choose_inspirations(parent, others, 9, np.random.default_rng(0))} == {2, 3, 4, 5}


def test_islands_take_turns() -> None:
    assert [island_of(number, 3) for number in range(1, 8)] == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("finished", "done", "islands", "due"),
    [(19, 0, 3, False), (20, 0, 3, True), (20, 1, 3, False), (45, 1, 3, True), (20, 0, 1, False)],
)
def test_migration_is_due_after_every_so_many(finished: int, done: int, islands: int, due: bool) -> None:
    assert migration_due(finished, done, 20, islands) is due


def test_one_elite_moves_from_each_island_to_the_next() -> None:
    islands = [island(0, ranked(3)), island(1, ()), island(2, (Elite(9, 0, 1.0),))]
    moves = choose_migrants(islands, seed=5, number=1)
    assert [(move.source, move.target) for move in moves] == [(0, 1), (2, 0)]
    assert moves[1].elite.number == 9
    assert choose_migrants(islands, seed=5, number=1) == moves


def test_every_island_is_reached_around_the_ring() -> None:
    islands = [island(n, (Elite(n + 1, 0, 1.0),)) for n in range(4)]
    assert {(m.source, m.target) for m in choose_migrants(islands, 0, 1)} == {(0, 1), (1, 2), (2, 3), (3, 0)}


def test_a_stagnant_island_starts_over_but_never_the_one_that_leads() -> None:
    weak, strong = island(0, (Elite(1, 0, 1.0),), stagnant=60), island(1, (Elite(2, 0, 5.0),), stagnant=99)
    assert stagnant_island([weak, strong], 60) is weak
    assert stagnant_island([weak, strong], 61) is None
    assert stagnant_island([strong], 60) is None
    assert choose_founder([weak, strong], weak, seed=0).number == 2


def test_an_island_starts_over_elsewhere_the_next_time() -> None:
    others = [island(n, (Elite(n, 0, 1.0),)) for n in range(1, 9)]
    founders = {
        choose_founder([first, *others], first, seed=3).number for first in (island(0, (), resets=r) for r in range(30))
    }
    assert len(founders) > 3


def test_streams_depend_on_seed_purpose_and_number_alone() -> None:
    first = stream(1, Stream.SELECT, 7).random(3).tolist()
    stream(1, Stream.SELECT, 6).random(100)
    assert stream(1, Stream.SELECT, 7).random(3).tolist() == first
    others = [stream(2, Stream.SELECT, 7), stream(1, Stream.PROPOSE, 7), stream(1, Stream.SELECT, 8)]
    assert all(other.random(3).tolist() != first for other in others)


def test_counters_start_anew_with_a_better_island_best() -> None:
    here = island(0, (Elite(1, 0, 1.0),), stagnant=4)
    assert here.counted(None).stagnant == 5
    assert here.counted(Elite(2, 1, 0.5)).stagnant == 5, "a new cell below the best is no progress"
    assert here.counted(Elite(2, 0, 2.0)) == IslandRecord(0, finished=1, stagnant=0)
