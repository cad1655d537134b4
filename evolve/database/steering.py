"""What people told a run while it went on: an append-only list, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Steer(StrEnum):
    """The ways of steering."""

    HINT = "hint"
    BAN = "ban"
    PAUSE = "pause"
    RESUME = "resume"
    WEIGHT = "weight"
    CAP = "cap"
    RELEASE = "release"
    """Ends a lease."""
    WITHDRAW = "withdraw"
    """Takes back a hint or a ban."""


_AREA = {Steer.PAUSE: "island", Steer.RESUME: "island", Steer.WEIGHT: "weight", Steer.CAP: "cap"}
"""Orders of one area and name replace each other."""


@dataclass(frozen=True)
class SteerRecord:
    """One order, as stored."""

    id: int
    kind: Steer
    text: str
    """One line: what a hint or ban says in prompts; of the others, what was done."""
    argument: str = ""
    """A ban's pattern; an island's number; ``NAME=VALUE`` of a weight or cap; the number of what is taken back."""
    at: float = 0.0
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Steering:
    """What all orders come to: later ones win."""

    hints: tuple[SteerRecord, ...] = ()
    bans: tuple[SteerRecord, ...] = ()
    paused: frozenset[int] = frozenset()
    """Islands on which nothing new is proposed."""
    records: tuple[SteerRecord, ...] = ()
    """Every order, oldest first."""

    @property
    def latest(self) -> frozenset[int]:
        """Numbers of the orders that no later one replaced: of those on one island, weight or cap the last holds.

        A hint or ban holds until it is withdrawn; a withdrawal has done its work.
        """
        last = {(_AREA[r.kind], r.argument.partition("=")[0]): r.id for r in self.records if r.kind in _AREA}
        return frozenset({*last.values(), *(record.id for record in (*self.hints, *self.bans))})

    @property
    def wishes(self) -> tuple[str, ...]:
        """Hints and bans as a prompt says them, the newest first: what has to go for lack of room goes from the end."""
        current = sorted((*self.hints, *self.bans), key=lambda record: -record.id)
        return tuple(f"Do not use: {r.text}" if r.kind is Steer.BAN else r.text for r in current)

    @classmethod
    def of(cls, records: Iterable[SteerRecord]) -> Steering:
        """Add up the orders, which come oldest first."""
        everything = tuple(records)
        said: dict[int, SteerRecord] = {}
        paused: set[int] = set()
        for record in everything:
            match record.kind:
                case Steer.HINT | Steer.BAN:
                    said[record.id] = record
                case Steer.WITHDRAW:
                    said.pop(int(record.argument), None)
                case Steer.PAUSE:
                    paused.add(int(record.argument))
                case Steer.RESUME:
                    paused.discard(int(record.argument))
        hints = tuple(record for record in said.values() if record.kind is Steer.HINT)
        bans = tuple(record for record in said.values() if record.kind is Steer.BAN)
        return cls(hints, bans, frozenset(paused), everything)
