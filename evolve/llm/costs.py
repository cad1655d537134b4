"""What language models cost, by model and operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evolve.llm.bandit import Arm
from evolve.llm.journal import CallEnd, CallStart


@dataclass(frozen=True)
class Tally:
    """A sum over requests."""

    requests: int = 0
    answers: int = 0
    tokens: int = 0
    usd: float = 0.0
    estimated: bool = False
    """Some of it is our own count."""
    unpriced: bool = False
    """Some of it has no price, so the dollars are not all."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            requests=self.requests + other.requests,
            answers=self.answers + other.answers,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            estimated=self.estimated or other.estimated,
            unpriced=self.unpriced or other.unpriced,
        )

    def usd_per(self, improvements: int) -> float | None:
        """Dollars for each improvement; ``None`` where there was none."""
        return self.usd / improvements if improvements else None


def tally(calls: Iterable[tuple[CallStart, CallEnd]]) -> dict[Arm, Tally]:
    """Sums by operator and model; failed requests count with what they used."""
    sums: dict[Arm, Tally] = {}
    for start, end in calls:
        arm = Arm(start.operator, start.request.model)
        one = Tally(
            requests=1,
            answers=int(end.answer is not None),
            tokens=end.usage.total,
            usd=end.cost_usd or 0.0,
            estimated=end.usage.estimated,
            unpriced=end.cost_usd is None and end.usage.total > 0,
        )
        sums[arm] = sums.get(arm, Tally()) + one
    return sums
