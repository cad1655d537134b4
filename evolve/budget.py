"""The budget: what was spent, what is promised to work in flight, and whether one more launch may start.

Pure bookkeeping in memory; the database's ledger is the record, and a resumed run starts from its totals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from evolve.settings import Caps
from evolve.types import StopReason

Clock = Callable[[], float]


@dataclass(frozen=True)
class Charge:
    """An amount of everything that has a cap and adds up. As a promise, a worst case; as a booking, the true cost."""

    candidates: int = 0
    device_s: float = 0.0
    dollars: float = 0.0
    tokens: int = 0

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            self.candidates + other.candidates,
            self.device_s + other.device_s,
            self.dollars + other.dollars,
            self.tokens + other.tokens,
        )


NOTHING = Charge()
"""No cost."""


@dataclass(frozen=True)
class Spent:
    """What a run has used up so far."""

    charge: Charge = NOTHING
    seconds: float = 0.0
    """Active wall-clock time, summed over resumes."""
    since_best: int = 0
    """Passed, new programs since the last new best."""
    best_score: float | None = None
    """Of the confirmed best."""


@dataclass(frozen=True)
class Reservation:
    """Permission to launch one piece of work; hand it back to :meth:`Budget.settle`."""

    number: int
    worst: Charge


class Budget:
    """Caps against what is spent and promised. At every instant ``spent + promised <= cap``.

    That holds as long as no piece of work costs more than it reserved, which the loop enforces by a deadline.
    """

    _CAPPED = (
        (StopReason.CANDIDATES, "candidates", "candidates"),
        (StopReason.DEVICE_SECONDS, "device_seconds", "device_s"),
        (StopReason.DOLLARS, "dollars", "dollars"),
        (StopReason.TOKENS, "tokens", "tokens"),
    )

    def __init__(self, caps: Caps, spent: Spent, clock: Clock) -> None:
        """Continue from ``spent``; ``clock`` gives monotonic seconds."""
        self.caps = caps
        self._charge = spent.charge
        self._since_best = spent.since_best
        self._best_score = spent.best_score
        self._seconds_before = spent.seconds
        self._clock = clock
        self._started = clock()
        self._open: dict[int, Charge] = {}
        self._promised = NOTHING
        self._next = 0
        self._room: list[Callable[[], None]] = []
        self.aside = 0
        """Places under the cap on candidates that others than this process hold."""

    @property
    def spent(self) -> Spent:
        """What was used up so far, this instant included."""
        seconds = self._seconds_before + self._clock() - self._started
        return Spent(self._charge, seconds, self._since_best, self._best_score)

    @property
    def promised(self) -> Charge:
        """The worst case of everything in flight."""
        return self._promised

    def remaining_s(self) -> float | None:
        """Seconds to the wall-clock deadline, never negative; ``None`` without one."""
        if self.caps.seconds is None:
            return None
        return max(0.0, self.caps.seconds - self.spent.seconds)

    def remaining_device_s(self) -> float | None:
        """Device seconds neither spent nor promised, never negative; ``None`` without a cap."""
        if self.caps.device_seconds is None:
            return None
        used = self._charge.device_s + self._promised.device_s
        remaining = max(0.0, self.caps.device_seconds - used)
        while remaining and used + remaining > self.caps.device_seconds:  # Rounded up: it could not be reserved.
            remaining = math.nextafter(remaining, 0.0)
        return remaining

    def reached(self) -> StopReason | None:
        """The cap that is met by what is spent alone: no further proposal is wanted."""
        if self.remaining_s() == 0.0:
            return StopReason.SECONDS
        for reason, cap_name, name in self._CAPPED:
            cap = getattr(self.caps, cap_name)
            if cap is not None and getattr(self._charge, name) >= cap:
                return reason
        if self.caps.patience is not None and self._since_best >= self.caps.patience:
            return StopReason.PATIENCE
        if self.caps.target is not None and self._best_score is not None and self._best_score >= self.caps.target:
            return StopReason.TARGET
        return None

    def refusal(self, worst: Charge, *, placed: bool = False) -> StopReason | None:
        """The cap that ``worst``, on top of what is spent, promised and set aside, would pass; ``None`` where it fits.

        ``placed``: it has one of the places that are set aside.
        """
        aside = Charge(candidates=self.aside - placed)
        return self._passed(worst, self._charge + self._promised + aside)

    def hopeless(self, worst: Charge) -> StopReason | None:
        """The cap that ``worst`` would pass even if nothing were in flight: it can fit no more."""
        return self._passed(worst, self._charge)

    def _passed(self, worst: Charge, before: Charge) -> StopReason | None:
        if self.remaining_s() == 0.0:
            return StopReason.SECONDS
        for reason, cap_name, name in self._CAPPED:
            cap = getattr(self.caps, cap_name)
            asked = getattr(worst, name)
            if cap is not None and asked and getattr(before, name) + asked > cap:
                return reason
        return None

    def when_room(self, call: Callable[[], None]) -> None:
        """Have ``call`` called, once, when the next piece of work is settled: what did not fit may fit then."""
        self._room.append(call)

    def reserve(self, worst: Charge) -> Reservation | StopReason:
        """Promise ``worst`` to a piece of work about to start, or say which cap forbids it."""
        refusal = self.refusal(worst)
        if refusal is not None:
            return refusal
        self._next += 1
        self._open[self._next] = worst
        self._promised = self._promised + worst
        return Reservation(self._next, worst)

    def settle(self, reservation: Reservation, actual: Charge = NOTHING) -> None:
        """The work ended (or was abandoned) and cost ``actual``: book it and take the promise back.

        Raises:
            KeyError: the reservation was settled before.
        """
        self._promised = self._without(self._open.pop(reservation.number))
        self._charge = self._charge + actual
        room, self._room = self._room, []
        for call in room:
            call()

    def _without(self, worst: Charge) -> Charge:
        """What is promised once ``worst`` is open no more."""
        promised, left = self._promised, self._open.values()
        # Summed anew rather than subtracted, so that rounding never leaves a residue behind.
        return Charge(
            candidates=promised.candidates - worst.candidates,
            device_s=sum([charge.device_s for charge in left], 0.0) if worst.device_s else promised.device_s,
            dollars=sum([charge.dollars for charge in left], 0.0) if worst.dollars else promised.dollars,
            tokens=promised.tokens - worst.tokens,
        )

    def book(self, actual: Charge) -> None:
        """Book a cost that nothing was reserved for."""
        self._charge = self._charge + actual

    def note_passed(self) -> None:
        """A new program passed without becoming the best."""
        self._since_best += 1

    def note_best(self, score: float) -> None:
        """A confirmed new best: patience starts anew."""
        self._since_best = 0
        self._best_score = score
