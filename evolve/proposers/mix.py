"""Several proposers in one run, drawn by weight."""

from __future__ import annotations

from collections.abc import Sequence

from evolve.types import Program, Proposal, ProposeContext, Proposer


class Mix:
    """Draws a proposer for each proposal; one that has nothing to offer passes its turn on to another.

    Verdicts go to the proposer that made the program, found by :attr:`~evolve.types.Program.proposer`.
    """

    name = "mix"

    def __init__(self, members: Sequence[tuple[Proposer, float]]):
        names = [proposer.name for proposer, _ in members]
        if len(set(names)) != len(names):
            raise ValueError(f"two proposers of one name: {', '.join(names)}")
        self._weights = {proposer.name: weight for proposer, weight in members if weight > 0}
        self._members = {proposer.name: proposer for proposer, _ in members}

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """The drawn proposer's proposal, else the next drawn one's; ``None`` where none has any."""
        weights = dict(self._weights)
        while weights:
            names = list(weights)
            total = sum(weights.values())
            name = names[int(context.rng.choice(len(names), p=[weights[n] / total for n in names]))]
            proposal = await self._members[name].propose(context)
            if proposal is not None:
                return proposal
            del weights[name]
        return None

    def tell(self, program: Program) -> None:
        """Pass a verdict on. A program of a proposer that is no member any more is nobody's to learn from."""
        member = self._members.get(program.proposer)
        if member is not None:
            member.tell(program)
