"""What a proposer's program came to, where it is not judged by itself alone."""

from __future__ import annotations

from dataclasses import replace

from evolve.types import Program


class Credit:
    """Credits structures with what tuning inside made of them. Feed it finished programs in the order they finished."""

    def __init__(self) -> None:
        """No program was seen yet."""
        self._winners: dict[int, Program | None] = {}
        """The variants that speak for structures yet to come; ``None`` for what was seen."""

    def of(self, program: Program) -> Program:
        """The program as its proposer is to be told of it: a structure with the verdicts and placement of its best.

        Of a family that is the one that finished first with a pass; everything else is returned as it is.
        """
        if program.variant_of is not None:
            if program.score is not None:
                self._winners.setdefault(program.variant_of, program)
            return program
        winner, self._winners[program.number] = self._winners.get(program.number), None
        if winner is None:
            return program
        return replace(
            program, placement=winner.placement, evaluation=winner.evaluation, confirmation=winner.confirmation
        )
