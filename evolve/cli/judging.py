"""Starting judges for commands."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import click

from evaluators.client import Judge, JudgeReady, JudgeSettings
from evaluators.task import Task
from evolve.cli.exits import Exit, Interrupted

T = TypeVar("T")
StartJudge = Callable[[JudgeSettings], Awaitable[Judge]]


@dataclass(frozen=True)
class Services:
    """What commands need of the world; tests hand in their own as click's ``obj``."""

    start_judge: StartJudge


def services() -> Services:
    """The current command's services: the ones it was handed, or the real ones."""
    found = click.get_current_context().find_object(Services)
    if found is not None:
        return found
    from evaluators.client import start_judge  # noqa: PLC0415

    return Services(start_judge)


def starting(task: Task) -> str:
    """What a person waits for while the judge starts, which takes a while."""
    measuring = ", which builds, checks and measures the baselines" if task.baselines else ""
    return f"{task.name}: starting the judge{measuring}"


@dataclass
class Stop:
    """Whether, and by which signal, somebody asked this process to end."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: Exit = Exit.INTERRUPTED
    early: str = "stopped before anything was written"
    """What to say as long as the judge is not ready."""


@contextmanager
def stop_on_signals(early: str = Stop.early) -> Iterator[Stop]:
    """Ctrl-C or SIGTERM sets the event, once; a second one ends the process the ordinary way."""
    loop = asyncio.get_running_loop()
    stop = Stop(early=early)
    signals = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}

    def request(number: signal.Signals) -> None:
        stop.exit_code = signals[number]
        stop.event.set()
        restore()

    def restore() -> None:
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, request, number)
    try:
        yield stop
    finally:
        restore()


class JudgeStarter:
    """Starts judges of one kind. The first is started ahead, so that a mistake shows before anything is written."""

    def __init__(self, start_judge: StartJudge, settings: JudgeSettings):
        self._start_judge = start_judge
        self._settings = settings
        self._ahead: Judge | None = None

    async def start_ahead(self) -> JudgeReady:
        """Start the first judge and wait until it is ready."""
        self._ahead = await self._start_judge(self._settings)
        return await self._ahead.ready()

    async def __call__(self) -> Judge:
        """The judge started ahead, the first time; then new ones."""
        judge, self._ahead = self._ahead, None
        return judge if judge is not None else await self._start_judge(self._settings)

    async def close(self) -> None:
        """End the judge started ahead, if nobody took it."""
        if self._ahead is not None:
            await self._ahead.close()
            self._ahead = None


@asynccontextmanager
async def ready_judges(start_judge: StartJudge, settings: JudgeSettings, stop: Stop) -> AsyncIterator[JudgeStarter]:
    """A starter whose first judge is ready.

    Raises:
        Interrupted: Somebody asked to stop before it was.
    """
    starter = JudgeStarter(start_judge, settings)
    try:
        await unless_stopped(starter.start_ahead(), stop)
        yield starter
    finally:
        await starter.close()


async def unless_stopped(work: Awaitable[T], stop: Stop) -> T:
    """The result of ``work``, which is cancelled when somebody asks to stop.

    Raises:
        Interrupted: Somebody did.
    """
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.event.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Interrupted(stop.exit_code, stop.early)
        return await task
    finally:
        for future in (task, stopped):
            future.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)
