"""The search's only door to the judge: an asyncio client of the judge's process.

Wire: one socketpair, each message a 4-byte big-endian length and UTF-8 JSON. Both ends are trusted.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from evaluators.device_account import DeviceAccount, DeviceNews
from evaluators.errors import JudgeError, SandboxError, TaskError, UsageError
from evaluators.evaluation import Duel, Environment, Evaluation
from evaluators.profile import Profile
from evaluators.task import Language
from evaluators.wire import LENGTH, Message, pack

SandboxMode = Literal["full", "reduced", "none"]


@dataclass(frozen=True)
class JudgeSettings:
    """How a judge is started."""

    task_folder: Path
    lanes: int = 1
    """How many evaluations may be in flight in the judge; timed rounds still run one at a time."""
    sandbox: SandboxMode = "full"
    """The minimum: below it the judge refuses to start. ``none`` is shown in every result."""
    target: str | None = None
    """Programs of a GPU: compiled for this one (``sm_90``, ``gfx942``), and not timed, whatever is in this machine."""


@dataclass(frozen=True)
class JudgeReady:
    """What a judge says of itself once it has built and measured its baselines."""

    environment: Environment
    task_hash: str
    baseline_us: dict[str, dict[str, float]]
    """Workload -> baseline -> microseconds a call."""
    floor_us: dict[str, float]
    """Workload -> the least time this device could need."""
    baselines_since: str = ""
    """When an earlier judge compiled the baselines' code that is in use; empty where this one did."""


class Judge(Protocol):
    """What the loop needs of a judge. Every method may raise :class:`~evaluators.errors.JudgeError`: our fault."""

    async def ready(self) -> JudgeReady:
        """Wait until baselines are built, checked and measured."""
        ...

    async def evaluate(self, source: str, language: Language) -> Evaluation:
        """Run the cascade on one source text."""
        ...

    async def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """The cascade in a new process with new keys, a fixed number of rounds, held-out workloads too.

        Args:
            source: the program.
            language: its language.
            every_baseline: measure the ratio to every baseline, also to those that cannot be the strongest.
        """
        ...

    async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """Compare two programs that passed, paired and interleaved. Time-scored tasks only."""
        ...

    def held_up_s(self, last_s: float) -> float:
        """Of the last so many seconds, how many it waited for another judge of this machine that had the device.

        Also while it gets ready, and when it is gone.
        """
        ...

    def queued_s(self, last_s: float, asker: asyncio.Task[Any] | None = None) -> float:
        """Of the last so many seconds, how many ``asker``'s question waited for others to this judge alone.

        For a builder's place or for the device; what :meth:`held_up_s` counts is not in it.
        """
        ...

    def device_s(self, asker: asyncio.Task[Any] | None = None) -> float | None:
        """Seconds of the device that went to what ``asker`` asked and has no answer to; ``None``: unknown.

        Where nobody is named the calling task is meant.
        """
        ...

    async def profile(self, source: str, language: Language) -> Profile | None:
        """Where the time of a program goes that passed; ``None`` where this judge profiles nothing.

        A profile that failed says so in ``missing``. No verdict depends on it.
        """
        ...

    async def close(self) -> None:
        """End the judge and everything under it."""
        ...


ERROR_KINDS: dict[str, type[Exception]] = {
    "task": TaskError,
    "sandbox": SandboxError,
    "usage": UsageError,
    "judge": JudgeError,
}
"""How an error travels: the name of its most special class here."""
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from evaluators.judge import main; main()"
_ROOT = Path(__file__).resolve().parent.parent
CLOSE_S = 2.0
"""How long a judge that is closed may take to clear away."""


class ProcessJudge:
    """A judge in a process of its own. It dies with this process, and everything below it dies with it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {0: asyncio.get_running_loop().create_future()}
        self._first = self._waiting[0]
        self._lost: str | None = None
        self._device = DeviceAccount()
        self._asked: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        """The question that a task asked last, until it is answered."""
        self._listening = asyncio.create_task(self._listen())

    @property
    def pid(self) -> int:
        """The judge's process."""
        return self._process.pid

    async def ready(self) -> JudgeReady:
        """See :class:`Judge`. Raises ``UsageError`` where the task or this host will not do."""
        facts = await asyncio.shield(self._first)
        return JudgeReady(
            environment=Environment.model_validate(facts["environment"]),
            task_hash=facts["task_hash"],
            baseline_us=facts["baseline_us"],
            floor_us=facts["floor_us"],
            baselines_since=facts["baselines_since"],
        )

    async def evaluate(self, source: str, language: Language) -> Evaluation:
        """See :class:`Judge`."""
        return Evaluation.model_validate(await self._ask("evaluate", source=source, language=language))

    async def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """See :class:`Judge`."""
        answer = await self._ask("confirm", source=source, language=language, every_baseline=every_baseline)
        return Evaluation.model_validate(answer)

    async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """See :class:`Judge`."""
        return Duel.model_validate(await self._ask("duel", challenger=challenger, occupant=occupant))

    def held_up_s(self, last_s: float) -> float:
        """See :class:`Judge`."""
        return self._device.held_up_s(last_s)

    def queued_s(self, last_s: float, asker: asyncio.Task[Any] | None = None) -> float:
        """See :class:`Judge`."""
        number = self._asked.get(asker or _this_task())
        return 0.0 if number is None else self._device.queued_s(number, last_s)

    def device_s(self, asker: asyncio.Task[Any] | None = None) -> float:
        """See :class:`Judge`."""
        number = self._asked.get(asker or _this_task())
        return 0.0 if number is None else self._device.device_s(number)

    async def profile(self, source: str, language: Language) -> Profile | None:
        """See :class:`Judge`."""
        answer = await self._ask("profile", source=source, language=language)
        return None if answer is None else Profile.model_validate(answer)

    async def close(self) -> None:
        """End the judge at once; an evaluation in flight is abandoned."""
        self._lose("the judge was closed")
        self._listening.cancel()
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._process.wait()  # it clears away what it has made
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _ask(self, method: str, **params: Any) -> Any:
        await asyncio.shield(self._first)
        if self._lost is not None:
            raise JudgeError(self._lost)
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        task = _this_task()
        self._device.forget(self._asked.get(task, number))
        self._asked[task] = number
        self._device.open(number)
        self._writer.write(pack({"id": number, "method": method, "params": params}))
        try:
            answer = await future
        except BaseException:
            # Until its task has ended somebody may want to know what it had of the device.
            task.add_done_callback(lambda _: self._device.forget(number))
            raise
        finally:
            self._waiting.pop(number, None)
        self._device.forget(self._asked.pop(task))
        return answer

    async def _listen(self) -> None:
        try:
            while True:
                (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
                self._deliver(_parse(await self._reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._process.wait()
            self._lose(f"the judge ended (exit code {code})")

    def _deliver(self, message: Message) -> None:
        if "device" in message:
            self._device.note(message["id"], DeviceNews(message["device"]))
            return
        future = self._waiting.get(message["id"])
        if future is None or future.done():
            return
        if "error" in message:
            error = message["error"]
            future.set_exception(ERROR_KINDS[error["kind"]](error["message"]))
            future.exception()  # seen, even if nobody is waiting any more
        else:
            future.set_result(message["result"])

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(JudgeError(why))
                future.exception()


async def start_judge(settings: JudgeSettings) -> ProcessJudge:
    """Start a judge. It builds and measures its baselines at once; :meth:`Judge.ready` waits for that."""
    ours, theirs = socket.socketpair()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-c",
            _BOOT,
            str(_ROOT),
            "--fd",
            str(theirs.fileno()),
            "--parent",
            str(os.getpid()),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    judge = ProcessJudge(process, reader, writer)
    wanted = {"lanes": settings.lanes, "sandbox": settings.sandbox, "target": settings.target}
    writer.write(pack({"task_folder": str(settings.task_folder), **wanted}))
    return judge


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise JudgeError("a judge is asked by a task of the loop")
    return task


def _parse(body: bytes) -> Message:
    message: Message = json.loads(body)
    return message
