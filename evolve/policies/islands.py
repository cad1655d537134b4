"""When islands exchange elites and when they start over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolve.archive import Elite
from evolve.island import Island
from evolve.policies.selection import choose_parent
from evolve.streams import Stream, stream


@dataclass(frozen=True)
class Move:
    """An elite that is to compete for its cell on another island."""

    source: int
    target: int
    elite: Elite


def island_of(turn: int, islands: int) -> int:
    """The island that the ``turn``-th program belongs to: round robin, so that no island waits for another."""
    return (turn - 1) % islands


def migration_due(finished: int, rounds_done: int, every: int, islands: int) -> bool:
    """A round of migration follows every ``every`` finished programs, where there is more than one island."""
    return islands > 1 and finished // every > rounds_done


def choose_migrants(islands: Sequence[Island], seed: int, number: int) -> tuple[Move, ...]:
    """One elite from each island to the next of the ring, drawn by rank; all chosen before any moves."""
    moves = []
    for island in islands:
        ranked = island.archive.ranked()
        if ranked:
            elite = choose_parent(ranked, 0.0, stream(seed, Stream.MIGRATE, number, island.number))
            moves.append(Move(island.number, (island.number + 1) % len(islands), elite))
    return tuple(moves)


def stagnant_island(islands: Sequence[Island], limit: int) -> Island | None:
    """The first island that should start over: stagnant for ``limit`` programs, and not the one that leads."""
    holders = [island for island in islands if len(island.archive)]
    if len(holders) < 2:
        return None
    leader = min(holders, key=lambda island: (island.archive.ranked()[0].rank[0], island.number))
    return next((i for i in islands if i.record.stagnant >= limit and i is not leader), None)


def choose_founder(islands: Sequence[Island], stagnant: Island, seed: int) -> Elite:
    """The elite a stagnant island starts over from: the best of another island, drawn at random."""
    others = [island for island in islands if island is not stagnant and len(island.archive)]
    rng = stream(seed, Stream.RESET, stagnant.number, stagnant.record.resets)
    return others[int(rng.integers(len(others)))].archive.ranked()[0]
