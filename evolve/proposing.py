"""The proposers of a run: which one is asked, who is told, and what they may cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from evaluators.errors import UsageError
from evolve.budget import Charge
from evolve.database.steps import Step, StepKind
from evolve.database.storage import Storage
from evolve.errors import ProposerDownError
from evolve.policies.credit import Credit
from evolve.streams import Stream, stream
from evolve.types import Dropped, Program, ProgramState, Proposal, ProposeContext, Proposer

_SOON_S = 1.0


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


@runtime_checkable
class Replays(Protocol):
    """A proposer that learns from more than its finished programs, and reads itself what it knew."""

    def replay(self, storage: Storage) -> None:
        """In place of being told every finished program again."""
        ...


class Turns(Protocol):
    """Told when each proposer is asked and has answered: what it knows at those instants decides what it proposes."""

    async def begin(self, number: int, name: str) -> None:
        """The proposer called ``name`` is about to be asked for program ``number``."""
        ...

    def end(self, number: int, name: str) -> None:
        """It has answered."""
        ...


class NotedTurns:
    """Puts turns down in a run's steps."""

    def __init__(self, storage: Storage) -> None:
        """Note them in ``storage``."""
        self._storage = storage

    async def begin(self, number: int, name: str) -> None:
        """See :class:`Turns`."""
        self._storage.note(Step(StepKind.TURN, number, text=name))

    def end(self, number: int, name: str) -> None:
        """See :class:`Turns`."""
        self._storage.note(Step(StepKind.END, number, text=name))


class Proposers:
    """Asks one proposer, drawn by weight; the others in drawn order where it has nothing to offer."""

    def __init__(self, weighted: Sequence[WeightedProposer], seed: int, turns: Turns | None = None) -> None:
        """Draw with the run's ``seed``. There may be none: then agents outside are all a run has.

        ``turns`` is told of every proposer that is asked.

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
        self._priced = [w.proposer for w in weighted if isinstance(w.proposer, Priced)]
        self._weights = {w.proposer.name: w.weight for w in weighted}
        self._seed = seed
        self._turns = turns
        self._credit = Credit()
        self.down: ProposerDownError | None = None
        """Who could not be reached the last time that there was no proposal."""

    @property
    def worst(self) -> Charge:
        """The most that one :meth:`propose` can cost: every proposer might be asked in turn."""
        charges = [p.worst_case() for p in self._priced if self._weights[p.name] > 0]
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

    @property
    def weights(self) -> dict[str, float]:
        """Each proposer's weight, by name."""
        return dict(self._weights)

    @property
    def in_flight(self) -> int:
        """Proposals that may be under way at once where the settings say nothing."""
        return max((getattr(proposer, "in_flight", 1) for proposer in self._active()), default=1)

    @property
    def read_profiles(self) -> bool:
        """Whether any of them makes something of a program's profile; agents outside do, where there is nobody else."""
        active = self._active()
        return not active or any(getattr(proposer, "reads_profiles", True) for proposer in active)

    @property
    def names(self) -> Collection[str]:
        """Of all proposers."""
        return self._by_name.keys()

    async def propose(self, context: ProposeContext) -> Proposal | Dropped | None:
        """The first proposal there is; ``None`` where no proposer has any for this parent.

        Raises:
            ProposerDownError: nobody can be asked now.
            BudgetRefusedError: a cap leaves no room for what the proposer costs.
        """
        order = self._order(context)
        downs: list[ProposerDownError] = []
        for proposer in order:
            try:
                proposal = await self._ask(proposer, context)
            except ProposerDownError as error:
                downs.append(error)
                continue
            if proposal is not None:
                return proposal
        self.down = downs[0] if downs else None
        if downs and len(downs) == len(order):
            raise downs[0]
        if downs and downs[0].retry_in_s is not None:
            # Others had nothing for this parent alone: they are soon asked again, with another.
            raise ProposerDownError(str(downs[0]), min(_SOON_S, downs[0].retry_in_s))
        return None

    async def _ask(self, proposer: Proposer, context: ProposeContext) -> Proposal | Dropped | None:
        if self._turns is None:
            return await proposer.propose(context)
        await self._turns.begin(context.number, proposer.name)
        proposal = await proposer.propose(context)
        self._turns.end(context.number, proposer.name)
        return proposal

    def tell(self, program: Program) -> None:
        """Tell a finished program to the proposer it is from, unless the judge itself failed on it."""
        credited = self._credit.of(program)
        proposer = self._by_name.get(program.proposer)
        if proposer is not None and not program.judge_failed:
            proposer.tell(credited)

    def replay(self, storage: Storage) -> None:
        """Tell every proposer what it was told before the run was broken off."""
        for program in map(self._credit.of, storage.programs(state=ProgramState.FINISHED)):
            proposer = self._by_name.get(program.proposer)
            if proposer is not None and not program.judge_failed and not isinstance(proposer, Replays):
                proposer.tell(program)
        for proposer in self._by_name.values():
            if isinstance(proposer, Replays):
                proposer.replay(storage)

    def _active(self) -> list[Proposer]:
        return [proposer for name, proposer in self._by_name.items() if self._weights[name] > 0]

    def _order(self, context: ProposeContext) -> Sequence[Proposer]:
        """Proposers in random order, heavier ones more likely first (Efraimidis and Spirakis, 2006)."""
        if context.resumes:
            return (self._by_name[context.resumes],)
        active = self._active()
        if len(active) <= 1:
            return active
        rng = stream(self._seed, Stream.PROPOSER, context.number)
        keys = [float(rng.exponential()) / self._weights[proposer.name] for proposer in active]
        ranked = sorted(zip(keys, active, strict=True), key=lambda pair: pair[0])
        return [proposer for _, proposer in ranked]
