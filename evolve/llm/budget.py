"""The cap on money and tokens, checked with a call's worst case before the call is made."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Protocol

from evaluators.errors import UsageError
from evolve.llm.errors import CapError
from evolve.types import StopReason


@dataclass(frozen=True)
class Reservation:
    """A worst case that is set aside while a call is in flight."""

    number: int
    usd: float
    tokens: int


class BudgetGate(Protocol):
    """Who says whether a call may be made."""

    def hopeless(self, worst_usd: float, worst_tokens: int) -> StopReason | None:
        """The cap that such a call would pass even if nothing were in flight; ``None`` where it may be made."""
        ...

    async def reserve(self, worst_usd: float, worst_tokens: int) -> Reservation:
        """Set the worst case aside; waits while it fits only once calls in flight have come in cheaper.

        Raises:
            CapError: it cannot fit any more.
        """
        ...

    def settle(self, reservation: Reservation, usd: float, tokens: int) -> None:
        """Replace the reservation by what was really used. Called exactly once per reservation."""
        ...


class Purse:
    """A :class:`BudgetGate` in memory. ``spent`` continues a resumed run's totals."""

    def __init__(
        self,
        usd_cap: float | None = None,
        token_cap: int | None = None,
        spent_usd: float = 0.0,
        spent_tokens: int = 0,
    ) -> None:
        for name, cap in (("dollar", usd_cap), ("token", token_cap)):
            if cap is not None and not (math.isfinite(cap) and cap >= 0):
                raise UsageError(f"{name} cap {cap}: give a finite number, zero or more")
        self._usd_cap = math.inf if usd_cap is None else usd_cap
        self._token_cap = math.inf if token_cap is None else token_cap
        self.spent_usd = spent_usd
        self.spent_tokens = spent_tokens
        self._open: dict[int, Reservation] = {}
        self._held_usd, self._held_tokens = 0.0, 0
        self._made = 0
        self._changed = asyncio.Event()

    def hopeless(self, worst_usd: float, worst_tokens: int) -> StopReason | None:
        """See :class:`BudgetGate`."""
        if self.spent_usd + worst_usd > self._usd_cap:
            return StopReason.DOLLARS
        return StopReason.TOKENS if self.spent_tokens + worst_tokens > self._token_cap else None

    async def reserve(self, worst_usd: float, worst_tokens: int) -> Reservation:
        """See :class:`BudgetGate`."""
        while not self._fits(self._held_usd + worst_usd, self._held_tokens + worst_tokens):
            reason = self.hopeless(worst_usd, worst_tokens)
            if reason is not None:
                raise CapError(self._why(worst_usd, worst_tokens), reason)
            await self._changed.wait()
        self._made += 1
        reservation = Reservation(self._made, worst_usd, worst_tokens)
        self._open[reservation.number] = reservation
        self._hold(worst_usd, worst_tokens)
        return reservation

    def settle(self, reservation: Reservation, usd: float, tokens: int) -> None:
        """See :class:`BudgetGate`."""
        del self._open[reservation.number]
        self._hold(-reservation.usd, -reservation.tokens)
        self.spent_usd += usd
        self.spent_tokens += tokens
        self._changed.set()
        self._changed = asyncio.Event()

    def _hold(self, usd: float, tokens: int) -> None:
        self._held_usd = self._held_usd + usd if self._open else 0.0
        self._held_tokens += tokens

    def _fits(self, usd: float, tokens: int) -> bool:
        return self.spent_usd + usd <= self._usd_cap and self.spent_tokens + tokens <= self._token_cap

    def _why(self, usd: float, tokens: int) -> str:
        if self.spent_usd + usd > self._usd_cap:
            return f"${self.spent_usd:.4f} of ${self._usd_cap:.4f} spent; the next call may cost up to ${usd:.4f}"
        return f"{self.spent_tokens} of {self._token_cap:.0f} tokens used; the next call may use up to {tokens}"
