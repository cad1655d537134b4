"""A proposer that cannot be asked again: what it proposed is given back by number."""

from __future__ import annotations

from evolve.replay.recording import Recording
from evolve.types import Program, Proposal, ProposeContext


def recalled(program: Program) -> Proposal:
    """The proposal that a program was."""
    return Proposal(
        source=program.source,
        language=program.language,
        operator=program.operator,
        proposer=program.proposer,
        parents=program.parents,
        inspirations=program.inspirations,
        model=program.model,
        note=program.note,
        details=program.details,
    )


class Recalled:
    """Stands in for an agent, a script, or any other proposer that is not there any more."""

    def __init__(self, name: str, recording: Recording) -> None:
        """Give back what the proposer called ``name`` proposed."""
        self.name = name
        self._recording = recording
        told = {step.program for step in recording.steps if step.kind == "tell"}
        self._numbers = frozenset(
            row["number"] for row in recording.storage.table() if row["proposer"] == name and row["number"] in told
        )

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """What it proposed as this number; ``None`` where that was somebody else's."""
        if context.number not in self._numbers:
            return None
        return recalled(self._recording.program(context.number))

    def tell(self, program: Program) -> None:
        """It learns nothing any more."""
