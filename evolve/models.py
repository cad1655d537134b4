"""The language models of a run, put together: clients, books, choice of model, prompts, and the proposer on top."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from evaluators.errors import UsageError
from evaluators.task import Task
from evolve.database.model_records import Dialogue
from evolve.database.reader import StorageReader
from evolve.database.steering import Steering
from evolve.errors import EvolveError
from evolve.experience import Experience
from evolve.llm.breaker import Breakers, BreakerSettings
from evolve.llm.budget import BudgetGate, Purse
from evolve.llm.cashier import Books
from evolve.llm.client import ModelClient
from evolve.llm.clock import SystemClock
from evolve.llm.ensemble import Ensemble, make_policy
from evolve.llm.journal import MemoryJournal
from evolve.llm.prices import PriceList
from evolve.llm.provider import provider_settings
from evolve.llm.settings import LlmSettings, ModelName
from evolve.llm.waiting import Waiting
from evolve.model_books import RunGate, RunJournal
from evolve.prompt_facts import RunFacts
from evolve.prompts.operators import OPERATORS
from evolve.prompts.rendering import PromptBook
from evolve.prompts.settings import PromptSettings
from evolve.proposers.llm import LlmProposer
from evolve.proposers.llm_parts import Dialogues, Parts
from evolve.rewards import Rewards
from evolve.run import Run
from evolve.settings import Caps
from evolve.types import Program

_ALWAYS_FIT = ("diff", "rewrite", "simplify")
"""Operators that make sense for every parent that passed."""


class SteeringReader(Protocol):
    """Where what people ask for is stored."""

    def steering(self) -> Steering:
        """See :class:`~evolve.database.storage.Storage`."""
        ...


@dataclass(frozen=True)
class Models:
    """What was configured, before any run is open."""

    task: Task
    llm: LlmSettings
    prompts: PromptSettings
    environment: Mapping[str, str]
    """Where keys are read from, normally ``os.environ``."""

    async def check(self, caps: Caps) -> None:
        """Find every mistake that can be found before anything is written. Takes seconds: the SDKs are imported.

        Raises:
            UsageError: unknown provider, operator or model, a missing key, a missing price under a dollar cap, or a
                folder of prompts that cannot be used.
        """
        self.check_names()
        for model in self.llm.models:
            provider_settings(self.llm, ModelName.parse(model.name))
        if caps.dollars is not None:
            self.prices.require(ModelName.parse(model.name) for model in self.llm.models)
        PromptBook.configured(self.prompts, self.task.folder)
        client = ModelClient(self.llm, self.environment, Books(MemoryJournal(), Purse(), self.prices))
        try:
            client.prepare()
        finally:
            await client.close()

    def check_names(self) -> None:
        """Models and operators as they are written.

        Raises:
            UsageError: a model's name is none or there twice, or an operator is unknown.
        """
        _check_names([ModelName.parse(model.name) for model in self.llm.models])
        _check_operators(self.llm)

    @asynccontextmanager
    async def proposer(self, run: Run) -> AsyncIterator[LlmProposer]:
        """The proposer of an open run; its connections are closed at the end."""
        books = Books(RunJournal(run.storage, run.booking), RunGate(run.budget), self.prices)
        client = ModelClient(self.llm, self.environment, books)
        try:
            client.prepare()
            facts = self._facts(run.remember(), run.storage, run.program)
            yield self._assembled(client, Rewards(self.task, run.storage, run.program), run.storage, facts)
        finally:
            await client.close()

    def dry(self, storage: StorageReader, gate: BudgetGate) -> LlmProposer:
        """A proposer to be asked for drafts alone: nothing is connected, booked or stored."""
        client = ModelClient(self.llm, self.environment, Books(MemoryJournal(), gate, self.prices))
        facts = self._facts(Experience.stored(self.task, storage), storage, storage.program)
        proposer = self._assembled(client, Rewards(self.task, storage, storage.program), _NoDialogues(), facts)
        proposer.replay(storage)
        return proposer

    @property
    def notice(self) -> str:
        """What to know before the search starts, one line; empty where there is nothing."""
        if self.llm.choose != "bandit" or not self._unpriced:
            return ""
        subject = f"{', '.join(self._unpriced)} {'has' if len(self._unpriced) == 1 else 'have'} no price"
        return f"{subject}: operators and models are chosen by gain per device second alone, dollars count for none"

    @property
    def prices(self) -> PriceList:
        """The shipped list prices under one's own."""
        return PriceList.load(self.llm.prices)

    @property
    def _unpriced(self) -> list[str]:
        prices = self.prices
        return [model.name for model in self.llm.models if prices.of(ModelName.parse(model.name)) is None]

    def _facts(self, experience: Experience, storage: SteeringReader, program: Callable[[int], Program]) -> RunFacts:
        def wishes() -> Sequence[str]:
            return storage.steering().wishes

        return RunFacts(self.task, experience, program, wishes, repair=self.llm.repair, port=self.llm.port)

    def _assembled(self, client: ModelClient, rewards: Rewards, dialogues: Dialogues, facts: RunFacts) -> LlmProposer:
        clock, patience = SystemClock(), self.llm.patience
        names = tuple(ModelName.parse(model.name) for model in self.llm.models)
        rests = BreakerSettings(patience.failures, patience.rest_s, patience.rest_most_s)
        policy = make_policy(self.llm, {name: o.weight for name, o in OPERATORS.items()}, not self._unpriced)
        parts = Parts(
            task=self.task,
            seed=(self.task.folder / self.task.seed_program).read_text(encoding="utf-8"),
            ensemble=Ensemble(self.llm.models, policy, Breakers(names, clock, rests), client),
            book=PromptBook.configured(self.prompts, self.task.folder),
            briefing=facts,
            learning=rewards,
            dialogues=dialogues,
            waiting=Waiting(clock, patience.outage_s),
        )
        return LlmProposer(parts)


class _NoDialogues:
    """Where nothing is stored."""

    def open_dialogues(self) -> Sequence[Dialogue]:
        """None."""
        return ()

    def open_dialogue(self, dialogue: Dialogue) -> None:
        """A draft is not put to any model.

        Raises:
            EvolveError: always.
        """
        raise EvolveError("a dry proposer was asked for a proposal")

    def redirect_dialogue(self, number: int, model: str) -> None:
        """Nor does one go on.

        Raises:
            EvolveError: always.
        """
        raise EvolveError("a dry proposer was asked for a proposal")


def _check_names(names: Sequence[ModelName]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"llm.models: {twice} is named twice; give it one entry")


def _check_operators(llm: LlmSettings) -> None:
    for model in llm.models:
        unknown = next((operator for operator in model.operators if operator not in OPERATORS), None)
        if unknown is not None:
            raise UsageError(f"llm.models: {model.name}: no operator {unknown!r}; there are {', '.join(OPERATORS)}")
    if not any(not model.operators or set(model.operators) & set(_ALWAYS_FIT) for model in llm.models):
        raise UsageError(f"llm.models: one of them has to be allowed one of the operators {', '.join(_ALWAYS_FIT)}")
