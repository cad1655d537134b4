"""A client and a server of the same wire, joined over loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from evolve.llm.budget import Purse
from evolve.llm.cashier import Books
from evolve.llm.client import ModelClient
from evolve.llm.journal import CallEnd, MemoryJournal
from evolve.llm.prices import Price, PriceList
from evolve.llm.request import Message, Request
from evolve.llm.settings import LlmSettings, ModelName, ModelSettings, PatienceSettings, ProviderSettings
from evolve.model_books import RunGate, RunJournal
from evolve.testing_llm.clock import FastClock
from evolve.testing_llm.model_server import Manners, ModelServer
from evolve.testing_llm.replies import Reply, Script

PRICE = Price(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5)


@dataclass
class Pair:
    """A server, a client of it, and the client's books."""

    server: ModelServer
    client: ModelClient
    journal: MemoryJournal | RunJournal
    purse: Purse | RunGate
    clock: FastClock

    def request(self, prompt: str = "Make it faster.", provider: str = "local", **settings: Any) -> Request:
        model = ModelSettings(name=f"{provider}/m1", **{"max_output_tokens": 4096, **settings})
        return Request.to(model, "You optimise kernels.", Message("user", prompt))

    @property
    def ends(self) -> list[CallEnd]:
        return [self.journal.ends[n] for n in range(len(self.journal.starts))]


@pytest.fixture(autouse=True, scope="session")
def _sdks_are_imported() -> None:
    """The SDKs import most of themselves on first use, which takes seconds that no deadline should count."""
    openai.AsyncOpenAI(api_key="x").chat.completions  # noqa: B018
    openai.AsyncOpenAI(api_key="x").responses  # noqa: B018
    anthropic.AsyncAnthropic(api_key="x").messages  # noqa: B018


@pytest.fixture(autouse=True)
def _no_ambient_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@asynccontextmanager
async def joined(
    wire: str,
    script: Script,
    manners: Manners | None = None,
    *,
    purse: Purse | RunGate | None = None,
    journal: MemoryJournal | RunJournal | None = None,
    patience: dict[str, Any] | None = None,
    provider: dict[str, Any] | None = None,
    factor: float = 50.0,
) -> AsyncIterator[Pair]:
    clock, journal, purse = FastClock(factor), journal or MemoryJournal(), purse or Purse()
    async with ModelServer(script, manners) as server:
        wires = {"local": wire, "second": "anthropic"}
        settings = LlmSettings(
            providers={
                name: ProviderSettings(
                    wire=spoken,
                    base_url=server.url if spoken == "anthropic" else server.openai_url,
                    key_env="LOCAL_KEY",
                    **(provider or {}),
                )
                for name, spoken in wires.items()
            },
            patience=PatienceSettings(**{"silence_s": 40, "call_s": 1500, **(patience or {})}),
        )
        books = Books(journal, purse, PriceList({ModelName(name, "m1"): PRICE for name in wires}))
        client = ModelClient(settings, {"LOCAL_KEY": server.key}, books, clock)
        try:
            yield Pair(server, client, journal, purse, clock)
        finally:
            await client.close()


@pytest.fixture
def pair() -> Callable[..., Any]:
    return joined


def sequence(*replies: Reply) -> Script:
    """Reply to the first request with the first, and so on; the last one serves for all that follow."""
    return lambda asked: replies[min(asked.number, len(replies)) - 1]


@pytest.fixture
def in_turn() -> Callable[..., Script]:
    return sequence
