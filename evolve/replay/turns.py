"""Lets each proposer be asked, and have its answers, when it had them in the run: what it knows by then decides."""

from __future__ import annotations

import asyncio

from evolve.database.steps import Step
from evolve.replay.errors import DifferenceError


class RecordedTurns:
    """A gate before every proposer, and one before the end of those that wait for answers from outside.

    See :class:`evolve.proposing.Turns`.
    """

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._beginning: dict[int, tuple[str, asyncio.Future[None]]] = {}
        self._ending: dict[int, asyncio.Future[None]] = {}

    async def begin(self, number: int, name: str) -> None:
        """Until it is this proposer's turn to propose program ``number``."""
        future = asyncio.get_running_loop().create_future()
        self._beginning[number] = name, future
        await future

    def end(self, number: int, name: str) -> None:
        """It has answered."""

    async def answers(self, number: int) -> None:
        """Until everything that was asked for program ``number`` was answered."""
        self._ending[number] = asyncio.get_running_loop().create_future()
        await self._ending[number]

    async def give(self, step: Step) -> None:
        """Let a proposer go on; it does at once, until it waits again.

        Raises:
            DifferenceError: another one would be asked, or none.
        """
        name, future = self._beginning.pop(step.program or 0, ("nobody", None))
        if future is None or name != step.text:
            raise DifferenceError(
                f"program {step.program}: proposer asked was {step.text} in the recorded run, is {name} now"
            )
        await _pass(future)

    async def answer(self, step: Step) -> None:
        """Let a proposer have its answers, where it waits for any."""
        future = self._ending.pop(step.program or 0, None)
        if future is not None:
            await _pass(future)


async def _pass(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
    await asyncio.sleep(0)
