"""Proposals of language models without a judge that takes time, with the SDKs or without, for ``llm_concurrency``."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import numpy as np

from evaluators.task import Task
from evaluators.task_loading import load_task
from evolve.edits.dialogue import converse
from evolve.edits.known import KnownPrograms
from evolve.edits.outcome import Edited
from evolve.edits.reading import EditContext
from evolve.llm.bandit import Arm
from evolve.llm.breaker import Breakers
from evolve.llm.budget import BudgetGate, Purse
from evolve.llm.cashier import Books
from evolve.llm.client import ModelClient
from evolve.llm.clock import SystemClock
from evolve.llm.ensemble import Ensemble, Question, make_policy
from evolve.llm.journal import CallJournal, MemoryJournal
from evolve.llm.prices import PriceList
from evolve.llm.provider import Endpoint
from evolve.llm.sdk import Sdk, SdkErrors
from evolve.llm.settings import LlmSettings, ModelName
from evolve.loop import WeightedProposer, search
from evolve.models import Models
from evolve.observer import Silent
from evolve.prompts.context import PromptContext, ShownProgram
from evolve.prompts.facts import task_facts
from evolve.prompts.operators import fitting
from evolve.prompts.rendering import Prompt, PromptBook
from evolve.prompts.settings import PromptSettings
from evolve.proposers.llm import NAME, LlmProposer
from evolve.proposing import Storage
from evolve.run import Run
from evolve.settings import Caps, RunSettings, SearchSettings
from evolve.testing import FakeJudge
from evolve.testing_llm import wires
from evolve.testing_llm.replies import Asked, Reply
from evolve.types import Dropped, Program, Proposal, ProposeContext

KEY = "sk-benchmark-0123456789"
Connect = Callable[[Endpoint], Sdk]

_ANCHOR = "constexpr int STEPS = 0;"
_VERDICT = 'static const char* VERDICT = "# fake: simd_share=0.{digits} text_kib=4 status={status} ";'
"""What the judge that costs nothing will say; in a string, since programs that differ in comments alone are equal."""
_DIGITS = "012345"
_TALK = "The loop is limited by loads, so I use the loaded piece of x for more rows. " * 16
_FAILING = 5
"""One in so many programs fails, so that prompts have failures to tell of."""


def answer(number: int) -> str:
    """A model's answer: a diff that fits every descendant of the seed, and makes another program of each number."""
    return _template(failing=number % _FAILING == 0).replace(_DIGITS, _digits(number))


def _template(failing: bool) -> str:
    verdict = _VERDICT.format(digits=_DIGITS, status="build_error" if failing else "passed")
    edit = f"<<<<<<< SEARCH\n{_ANCHOR}\n=======\n{_ANCHOR}\n{verdict}\n>>>>>>> REPLACE\n"
    text = f"{_TALK}\n\n{edit}"
    return text[text.index(_DIGITS) % len(wires.pieces(text)[0]) :]  # no stream cuts through the digits


def _digits(number: int) -> str:
    """Six digits, other ones for each number, that look drawn."""
    return f"{number * 618_033 % 1_000_000:06}"


def stand_in_task(folder: Path, task: Path) -> Task:
    """A copy of a task whose seed says its own verdict."""
    shutil.copytree(task, folder)
    loaded = load_task(folder)
    seed = folder / loaded.seed_program
    verdict = _VERDICT.format(digits=_DIGITS, status="passed")
    mark = "// EVOLVE-BLOCK-START\n"
    seed.write_text(seed.read_text().replace(mark, f"{mark}{_ANCHOR}\n{verdict}\n"))
    return load_task(folder)


class Recorded:
    """Stands in for an SDK: answers in the pieces in which the server sends them, one a turn of the event loop."""

    errors = SdkErrors(RuntimeError, RuntimeError, RuntimeError, (RuntimeError,))

    def __init__(self, endpoint: Endpoint) -> None:
        asked = Asked(1, endpoint.wire, {"model": "m", "messages": [], "stream": True}, {})
        self._pieces = [list(wires.stream(asked, Reply(_template(failing)))) for failing in (False, True)]
        self._numbers = iter(range(1, 10**9)) if endpoint.wire == "chat" else iter(range(-1, -(10**9), -1))

    @asynccontextmanager
    async def open(self, _body: dict[str, Any]) -> AsyncIterator[_RecordedReply]:
        """See :class:`evolve.llm.sdk.Sdk`."""
        await asyncio.sleep(0)
        number = next(self._numbers)
        yield _RecordedReply(self._pieces[number % _FAILING == 0], _digits(number).encode())

    async def close(self) -> None:
        """Nothing is open."""


class _RecordedReply:
    """See :class:`evolve.llm.sdk.HttpReply`."""

    def __init__(self, pieces: list[bytes], digits: bytes) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._pieces = pieces
        self._digits = digits

    async def iter_bytes(self, _chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """See :class:`evolve.llm.sdk.HttpReply`."""
        for piece in self._pieces:
            await asyncio.sleep(0)
            yield piece.replace(_DIGITS.encode(), self._digits)


class Proposals:
    """Single proposals, one like the other: from the choice of a model to the source, with the books handed in."""

    def __init__(
        self,
        task: Task,
        settings: LlmSettings,
        connect_to: Connect,
        journal: CallJournal | None = None,
        gate: BudgetGate | None = None,
    ) -> None:
        clock, seed = SystemClock(), (task.folder / task.seed_program).read_text()
        self.journal = journal or MemoryJournal()
        books = Books(self.journal, gate or Purse(usd_cap=1e6), PriceList.load(settings.prices))
        client = ModelClient(settings, {"K": KEY}, books)
        with patch("evolve.llm.client.connect", connect_to):
            client.prepare()
        names = tuple(ModelName.parse(m.name) for m in settings.models)
        policy = make_policy(settings, {"diff": 1.0, "simplify": 1.0})
        self._ensemble = Ensemble(settings.models, policy, Breakers(names, clock), client)
        self._book = PromptBook()
        parent = ShownProgram(1, seed, "cpp", "passed", "1.2 times as fast", workloads=("m: 200 us",) * 3)
        others = tuple(replace(parent, number=n) for n in (2, 3))
        self._facts = PromptContext("diff", task_facts(task), parent, inspirations=others)
        self._edits = EditContext(seed, seed, "cpp", task.entry, task.limits.source_bytes)
        self._known = KnownPrograms()
        self._known.add(1, seed, "cpp")

    def prompt(self, operator: str = "diff") -> Prompt:
        """What a model is asked."""
        return self._book.render(replace(self._facts, operator=operator))

    async def propose(self, number: int) -> None:
        """One proposal."""
        arm = self._ensemble.choose(set(fitting(self._facts)) & {"diff", "simplify"}, np.random.default_rng(number))
        assert arm is not None  # two models without restrictions
        prompt = self.prompt(arm.operator)
        spoken = await converse(self._asking(arm, prompt.system), prompt.user, self._edits, number, self._book)
        if not isinstance(spoken.outcome, Edited):
            raise SystemExit(f"the answer could not be used: {spoken.outcome.message}")
        if next(self._known.find(spoken.outcome.source, "cpp"), None) is not None:
            raise SystemExit("the answer equals the seed")

    def _asking(self, arm: Arm, system: str) -> Any:
        return lambda turns, key: self._ensemble.ask(arm, Question(system, turns), key)


class PacedRun(Silent):
    """A whole run on SQLite, with its prompts, archive and books, that goes on by as many programs as it is told.

    Only the judge costs next to nothing. Use as an asynchronous context manager; what starting costs is over then.
    """

    def __init__(self, folder: Path, task: Task, settings: LlmSettings, connect_to: Connect, in_flight: int) -> None:
        search_settings = SearchSettings(proposals=in_flight, queue=in_flight, tune_inside=0)
        self.run = Run.create(folder, task, RunSettings(search=search_settings, caps=Caps(dollars=1e6)))
        self._models = Models(task, settings, PromptSettings(), {"K": KEY})
        self._connect = connect_to
        self._tickets = asyncio.Semaphore(0)
        self._stop, self._all = asyncio.Event(), asyncio.Event()
        self._left = self._now = 0
        self._stack = AsyncExitStack()
        self.most = 0
        """Proposals in flight at once."""

    async def __aenter__(self) -> Self:
        self._stack.enter_context(self.run)
        with patch("evolve.llm.client.connect", self._connect):
            proposer = await self._stack.enter_async_context(self._models.proposer(self.run))

        async def start() -> FakeJudge:
            return FakeJudge(timed=True, profiles=True)

        self._left = 1  # the seed
        work = search(self.run, start, [WeightedProposer(_Paced(proposer, self))], observers=[self], stop=self._stop)
        self._search = asyncio.create_task(work)
        await self._wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._search
        await self._stack.aclose()

    async def go_on(self, programs: int) -> None:
        """Until so many more are proposed, judged and placed."""
        self._left = programs
        self._all.clear()
        for _ in range(programs):
            self._tickets.release()
        await self._wait()

    async def _wait(self) -> None:
        everything = asyncio.create_task(self._all.wait())
        await asyncio.wait((everything, self._search), return_when=asyncio.FIRST_COMPLETED)
        if not self._all.is_set():
            raise SystemExit(f"the search ended: {self._search.result().text}")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Of a proposal: it waits until it is wanted."""
        await self._tickets.acquire()
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            yield
        finally:
            self._now -= 1

    def on_program(self, program: Program) -> None:
        """See :class:`evolve.observer.Observer`."""
        self._left -= 1
        if self._left == 0:
            self._all.set()

    def on_note(self, kind: str, text: str) -> None:
        """See :class:`evolve.observer.Observer`."""
        if kind == "proposer":
            raise SystemExit(f"an answer could not be used: {text}")


class _Paced:
    """The proposer of a paced run."""

    name = NAME

    def __init__(self, proposer: LlmProposer, run: PacedRun) -> None:
        self._proposer = proposer
        self._run = run

    async def propose(self, context: ProposeContext) -> Proposal | Dropped | None:
        """See :class:`evolve.types.Proposer`."""
        async with self._run.turn():
            return await self._proposer.propose(context)

    def tell(self, program: Program) -> None:
        """See :class:`evolve.types.Proposer`."""
        self._proposer.tell(program)

    def replay(self, storage: Storage) -> None:
        """See :class:`evolve.proposing.Replays`."""
        self._proposer.replay(storage)
