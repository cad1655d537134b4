"""A proposer that follows a script: for tests, benchmarks, and replaying what somebody wrote down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evolve.types import Program, Proposal, ProposeContext

Script = Callable[[ProposeContext], "Proposal | str | None"]


class Scripted:
    """Proposes what a list or a function says; pure, so a resumed run goes on where it stopped.

    Args:
        script: A list of source texts or proposals, of which the run's program ``number`` takes item ``number - 2``
            (number 1 is the seed) as long as there is one; or a function of the context.
    """

    name = "scripted"

    def __init__(self, script: Sequence[Proposal | str] | Script):
        self._script = script

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """What the script says for this number; a bare source text becomes a ``rewrite`` of the parent."""
        said = self._script(context) if callable(self._script) else self._item(context.number - 2)
        if isinstance(said, str):
            return Proposal(said, context.parent.language, "rewrite", self.name, (context.parent.number,))
        return said

    def tell(self, program: Program) -> None:
        """A script does not listen."""

    def _item(self, index: int) -> Proposal | str | None:
        assert not callable(self._script)
        return self._script[index] if 0 <= index < len(self._script) else None
