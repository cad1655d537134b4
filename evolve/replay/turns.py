"""Lets each proposer be asked when it was asked in the run: what it knows by then decides what it proposes."""

from __future__ import annotations

import asyncio

from evolve.database.steps import Step
from evolve.replay.errors import DifferenceError


class Turns:
    """A gate before every proposer."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._waiting: dict[int, tuple[str, asyncio.Future[None]]] = {}

    async def wait(self, number: int, name: str) -> None:
        """Until it is this proposer's turn to propose program ``number``."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = name, future
        await future

    async def give(self, step: Step) -> None:
        """Let a proposer go on; it does at once, until it waits again.

        Raises:
            DifferenceError: another one would be asked, or none.
        """
        name, future = self._waiting.pop(step.program or 0, ("nobody", None))
        if future is None or name != step.text:
            raise DifferenceError(
                f"program {step.program}: proposer asked was {step.text} in the recorded run, is {name} now"
            )
        future.set_result(None)
        await asyncio.sleep(0)
