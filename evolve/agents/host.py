"""A judge that is kept for a while, so that an agent's next answer need not wait for its start."""

from __future__ import annotations

import asyncio

from evolve.agents.awaiting import LOOK_S, OwnJudge
from evolve.loop import Outcome


class KeptJudge:
    """A :class:`evolve.agents.awaiting.Host` that judges in the background until it has been idle for long enough."""

    def __init__(self, own: OwnJudge) -> None:
        """``own.linger_s`` says for how long."""
        self._own = own
        self._task: asyncio.Task[Outcome] | None = None

    async def judge(self) -> Outcome | None:
        """See :class:`evolve.agents.awaiting.Host`; nearly always ``None``: it goes on.

        Raises:
            RunLockedError: somebody else has just taken the run up.
            JudgeError: the judge cannot be started.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._own.judge())
        judging = self._task  # Others wait for the same one: whoever wakes first begins anew.
        await asyncio.wait({judging}, timeout=LOOK_S)
        if not judging.done():
            return None
        if self._task is judging:
            self._task = None
        return judging.result()

    async def close(self) -> None:
        """End it; what is unfinished stays in the run."""
        self._own.stop.set()
        if self._task is not None:
            await asyncio.wait({self._task})
