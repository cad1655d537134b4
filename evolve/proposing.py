"""The proposers of a run: which one is asked, who is told, and what they may cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from evaluators.errors import UsageError
from evolve.budget import Charge
from evolve.database.storage import Storage
from evolve.streams import Stream, stream
from evolve.types import Program, ProgramState, Proposal, ProposeContext, Proposer


@dataclass(frozen=True)
class WeightedProposer:
    """A proposer and its share of the proposals; 0 leaves it out until a person gives it a share."""

    proposer: Proposer
    weight: float = 1.0


@runtime_checkable
class Priced(Protocol):
    """A proposer that spends money or tokens itself: it says in advance how much one proposal may cost at worst.

    What it did spend it books itself.
    """

    def worst_case(self) -> Charge:
        """The most that one ``propose`` can cost, every retry included."""
        ...


class Proposers:
    """Asks one proposer, drawn by weight; the others in drawn order where it has nothing to offer."""

    def __init__(self, weighted: Sequence[WeightedProposer], seed: int) -> None:
        """Draw with the run's ``seed``. There may be none: then agents outside are all a run has.

        Raises:
            UsageError: two have one name, or a weight is negative or infinite.
        """
        names = [w.proposer.name for w in weighted]
        if len(set(names)) != len(names):
            raise UsageError(f"proposers: names must differ, got {', '.join(names)}")
        for w in weighted:
            if not 0 <= w.weight < float("inf"):
                raise UsageError(
                    f"proposers: weight of {w.proposer.name} must not be negative and be finite, got {w.weight}"
                )
        self._by_name = {w.proposer.name: w.proposer for w in weighted}
        self._weights = {w.proposer.name: w.weight for w in weighted}
        self._seed = seed

    @property
    def worst(self) -> Charge:
        """The most that one :meth:`propose` can cost: every proposer might be asked in turn."""
        charges = [p.worst_case() for p in self._active() if isinstance(p, Priced)]
        return Charge(
            dollars=sum(charge.dollars for charge in charges), tokens=sum(charge.tokens for charge in charges)
        )

    def any(self) -> bool:
        """Whether there is anybody to ask."""
        return bool(self._active())

    def set_weight(self, name: str, weight: float) -> bool:
        """Change a proposer's share from the next proposal on; ``False`` where it takes no part in this process."""
        if name not in self._weights:
            return False
        self._weights[name] = weight
        return True

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """The first proposal there is; ``None`` where no proposer has any for this parent."""
        for proposer in self._order(context.number):
            proposal = await proposer.propose(context)
            if proposal is not None:
                return proposal
        return None

    def tell(self, program: Program) -> None:
        """Tell a finished program to the proposer it is from, unless the judge itself failed on it."""
        proposer = self._by_name.get(program.proposer)
        if proposer is not None and not program.judge_failed:
            proposer.tell(program)

    def replay(self, storage: Storage) -> None:
        """Tell every proposer what it was told before the run was broken off."""
        for name in self._by_name:
            for program in storage.programs(state=ProgramState.FINISHED, proposer=name):
                self.tell(program)

    def _active(self) -> list[Proposer]:
        return [proposer for name, proposer in self._by_name.items() if self._weights[name] > 0]

    def _order(self, number: int) -> Sequence[Proposer]:
        """Proposers in random order, heavier ones more likely first (Efraimidis and Spirakis, 2006)."""
        active = self._active()
        if len(active) <= 1:
            return active
        rng = stream(self._seed, Stream.PROPOSER, number)
        keys = [float(rng.exponential()) / self._weights[proposer.name] for proposer in active]
        ranked = sorted(zip(keys, active, strict=True), key=lambda pair: pair[0])
        return [proposer for _, proposer in ranked]
