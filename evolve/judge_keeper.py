"""Keeps a judge alive: starts it, starts it anew when it failed, and gives a suspect the judge for itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from evaluators.client import Judge, JudgeReady
from evaluators.errors import JudgeError, TaskError
from evaluators.evaluation import Cost
from evolve.errors import JudgeUnavailableError

JudgeFactory = Callable[[], Awaitable[Judge]]
"""Starts a judge. Called again when one died."""

STARTS = 3
"""How many times in a row starting anew is tried."""

READY_S = 1800.0
"""How long a judge may take to get ready, where the task says nothing of it."""

GLANCE_S = 0.01
"""How often it is looked at the least whether there is time left."""

LAST_LOOK_S = 0.1
"""What came while this process stood still is read for so long before the judge counts as hung."""

T = TypeVar("T")


class JudgeHungError(JudgeError):
    """No answer within the deadline."""


class DeviceSpentError(JudgeError):
    """It was broken off: it had as much of the device as there was for it."""


class TaskFailedError(JudgeError):
    """The task's own evaluator could not deal with a program's answer; the judge is well."""


@dataclass
class Use:
    """What a question took, answered or not."""

    cost: Cost = field(default_factory=Cost)
    """Time since it was put, and seconds of the device: of a judge that cannot say so all that time."""


class JudgeKeeper:
    """Owns the judge's process. Any failure of an answer discards that judge; the next question starts another."""

    def __init__(self, start: JudgeFactory, ready_s: float = READY_S) -> None:
        """Nothing is started yet; a judge has ``ready_s`` to get ready, besides what it waits for others."""
        self._start = start
        self._ready_s = ready_s
        self._judge: Judge | None = None
        self._ready: JudgeReady | None = None
        self._starting = asyncio.Lock()
        self._gate = _Gate()

    @property
    def ready(self) -> JudgeReady:
        """What the judge said of itself when it was last started."""
        if self._ready is None:
            raise JudgeUnavailableError("the judge was never started")
        return self._ready

    async def open(self) -> JudgeReady:
        """Start the judge for the first time; its own errors are the caller's to report.

        Raises:
            JudgeError: it failed.
            UsageError: it refuses this task or this host.
        """
        await self._begin()
        return self.ready

    async def call(
        self,
        question: Callable[[Judge], Awaitable[T]],
        deadline_s: float,
        *,
        device_s: float = math.inf,
        alone: bool = False,
        use: Use | None = None,
    ) -> T:
        """Ask the judge; with ``alone`` nothing else is in its hands meanwhile.

        Args:
            question: what to ask.
            deadline_s: how long to wait; no time passes while another judge of this machine has the device, or while
                other questions have the builders' places or the device.
            device_s: how much of the device it may have.
            alone: see above.
            use: where to put down what it took, whatever the end.

        Raises:
            DeviceSpentError: no answer after ``device_s`` of the device; the judge was discarded.
            JudgeHungError: no answer after ``deadline_s``; the judge was discarded.
            JudgeUnavailableError: it cannot be started anew.
            TaskFailedError: the task's evaluator failed on this question.
            JudgeError: it failed; it was discarded.
        """
        use = use or Use()
        async with self._gate.alone() if alone else self._gate.shared():
            judge = await self._current()
            try:
                async with _deadline(judge, deadline_s, device_s) as limit, _counted(judge, use):
                    return await question(judge)
            except TimeoutError as error:
                await self.discard(judge)
                if not limit.expired():
                    raise JudgeError(f"the judge timed out: {error}") from error
                if device_s < deadline_s and use.cost.device_s >= device_s:
                    raise DeviceSpentError(f"no answer within {device_s:.3g} s of the device") from None
                raise JudgeHungError(f"no answer within {deadline_s:.3g} s") from None
            except TaskError as error:
                raise TaskFailedError(str(error)) from error
            except JudgeError:
                await self.discard(judge)
                raise

    async def discard(self, judge: Judge | None = None) -> None:
        """End this judge (or the current one); the next call starts another."""
        judge = judge or self._judge
        if judge is None or judge is not self._judge:
            return
        self._judge = None
        with suppress(JudgeError):
            await judge.close()

    async def close(self) -> None:
        """End the judge."""
        await self.discard()

    async def _current(self) -> Judge:
        async with self._starting:
            for attempt in range(STARTS):
                if self._judge is not None:
                    break
                try:
                    await self._begin()
                except JudgeError as error:
                    if attempt == STARTS - 1:
                        raise JudgeUnavailableError(f"the judge cannot be started anew: {error}") from error
        if self._judge is None:
            raise JudgeUnavailableError("the judge is gone")
        return self._judge

    async def _begin(self) -> None:
        judge = await self._start()
        try:
            async with _deadline(judge, self._ready_s) as limit:
                self._ready = await judge.ready()
        except BaseException as error:
            with suppress(JudgeError):
                await judge.close()
            if isinstance(error, TimeoutError) and limit.expired():
                raise JudgeHungError(
                    f"the judge was not ready within {self._ready_s:.3g} s: its baselines take too long, or it hangs"
                ) from None
            raise
        self._judge = judge


@asynccontextmanager
async def _deadline(judge: Judge, deadline_s: float, device_s: float = math.inf) -> AsyncIterator[asyncio.Timeout]:
    """Ends what is in it after so many seconds, to which is added what was waited for other judges and questions.

    Or when what is asked in it has had ``device_s`` of the device: of a judge that cannot say, all that time counts.
    """
    asker = asyncio.current_task()

    def left_s(elapsed_s: float) -> float:
        waited_s = judge.held_up_s(elapsed_s) + judge.queued_s(elapsed_s, asker)
        had_s = judge.device_s(asker)
        device_left_s = device_s - (elapsed_s - waited_s if had_s is None else had_s)
        return min(deadline_s + waited_s - elapsed_s, device_left_s)

    async with asyncio.timeout(None) as limit:
        watch = asyncio.create_task(_expire(limit, left_s))
        try:
            yield limit
        finally:
            watch.cancel()


async def _expire(limit: asyncio.Timeout, left_s: Callable[[float], float]) -> None:
    clock = asyncio.get_running_loop().time
    started = clock()
    late_s = 0.0
    while (rest_s := left_s(clock() - started)) > 0:
        due = clock() + max(rest_s, GLANCE_S)
        await asyncio.sleep(due - clock())
        late_s = clock() - due
    if late_s > LAST_LOOK_S:  # This process stood still: the answer may lie unread.
        await asyncio.sleep(LAST_LOOK_S)
    limit.reschedule(clock())


@asynccontextmanager
async def _counted(judge: Judge, use: Use) -> AsyncIterator[None]:
    clock = asyncio.get_running_loop().time
    asked = clock()
    try:
        yield
    finally:
        wall_s, device_s = clock() - asked, judge.device_s()
        use.cost = Cost(device_s=wall_s if device_s is None else device_s, wall_s=wall_s)


class _Gate:
    """Many may pass together, or one alone. Whoever wants to be alone goes first."""

    def __init__(self) -> None:
        self._inside = 0
        self._exclusive = False
        self._alone_waiting = 0
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        while self._exclusive or self._alone_waiting:
            await self._change()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._changed()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        self._alone_waiting += 1
        try:
            while self._exclusive or self._inside:
                await self._change()
            self._exclusive = True
        finally:
            self._alone_waiting -= 1
            self._changed()
        try:
            yield
        finally:
            self._exclusive = False
            self._changed()

    async def _change(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
