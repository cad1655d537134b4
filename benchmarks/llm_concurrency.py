"""What a proposal costs the loop's process while many models are being asked at once.

    python benchmarks/llm_concurrency.py [-n PROPOSALS] [-f IN_FLIGHT] [-o RESULT.json]

Every proposal is whole: choose operator and model, render the prompt of the shipped task ``q4_matvec_cpu``, check the
cap, ask over loopback through the official SDK, decode the stream, book it, read the diff, look whether the program is
known.
The models are a server in a process of its own that streams an answer of about 1,700 characters in some 70 pieces.

The SDKs and their HTTP library do most of that work, and nothing of ours can make them faster. So each half is measured
alone as well, in turn with the whole:

* *SDKs and HTTP*: the same requests made by the SDKs alone, reading the bytes and dropping them;
* *own*: the same proposals with the SDKs replaced by something that hands over the same bytes in the same pieces.

What the whole costs beyond the two is what they cost each other: the caches of one core hold only so much.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.record import write_record
from evaluators.task_loading import load_task
from evolve.edits.dialogue import converse
from evolve.edits.known import KnownPrograms
from evolve.edits.outcome import Edited
from evolve.edits.reading import EditContext
from evolve.llm.bandit import Arm
from evolve.llm.breaker import Breakers
from evolve.llm.budget import Purse
from evolve.llm.cashier import Books
from evolve.llm.client import ModelClient
from evolve.llm.clock import SystemClock
from evolve.llm.ensemble import Ensemble, Question, make_policy
from evolve.llm.journal import MemoryJournal
from evolve.llm.prices import PriceList
from evolve.llm.provider import Endpoint, endpoint
from evolve.llm.quirks import Quirks
from evolve.llm.request import Message, Request
from evolve.llm.sdk import Sdk, SdkErrors, connect
from evolve.llm.settings import LlmSettings, ModelName, ModelSettings, PriceSettings, ProviderSettings
from evolve.llm.wire_anthropic import AnthropicWire
from evolve.llm.wire_chat import ChatWire
from evolve.prompts.context import PromptContext, ShownProgram
from evolve.prompts.facts import task_facts
from evolve.prompts.operators import fitting
from evolve.prompts.rendering import PromptBook
from evolve.testing_llm.model_server import Manners, ModelServer
from evolve.testing_llm.replies import Asked, Reply

TASK = load_task(Path(__file__).parents[1] / "tasks" / "q4_matvec_cpu")
SEED = (TASK.folder / TASK.seed_program).read_text()
ROUNDS = 5
KEY = "sk-benchmark-0123456789"
MODELS = (ModelSettings(name="first/m"), ModelSettings(name="second/m"))
_TALK = "The loop is limited by loads, so I use the loaded piece of x for more rows. " * 16
ANSWER = f"""{_TALK}

<<<<<<< SEARCH
constexpr int ROWS = 1;                  // tune: 1, 2, 4, 8
=======
constexpr int ROWS = 4;                  // tune: 1, 2, 4, 8
>>>>>>> REPLACE

<<<<<<< SEARCH
constexpr int LANES = 8;                 // tune: 4, 8
=======
constexpr int LANES = 4;                 // tune: 4, 8
>>>>>>> REPLACE
"""


@dataclass(frozen=True)
class Cost:
    """Over all proposals of one measurement."""

    cpu_ms: float
    """Of this process, for each proposal."""
    wall_s: float


def _serve(pipe: Connection, piece_s: float) -> None:
    """The server's process: says where it listens, and ends when told to."""

    async def run() -> None:
        def script(asked: Asked) -> Reply:
            return Reply(ANSWER)

        async with ModelServer(script, Manners(key=KEY, piece_s=piece_s)) as server:
            pipe.send(server.url)
            await asyncio.get_running_loop().run_in_executor(None, pipe.recv)

    asyncio.run(run())


def _settings(url: str, in_flight: int) -> LlmSettings:
    price = PriceSettings(input=1.0, output=4.0)
    return LlmSettings(
        models=MODELS,
        providers={
            "first": ProviderSettings(wire="chat", base_url=f"{url}/v1", key_env="K", concurrency=in_flight),
            "second": ProviderSettings(wire="anthropic", base_url=url, key_env="K", concurrency=in_flight),
        },
        prices={model.name: price for model in MODELS},
    )


async def _timed(work: Callable[[int], Awaitable[None]], which: range, in_flight: int) -> Cost:
    """Numbered pieces of work, at most ``in_flight`` at once."""
    numbers = iter(which)

    async def worker() -> None:
        for number in numbers:
            await work(number)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return Cost(1e3 * (time.process_time() - cpu) / len(which), time.perf_counter() - began)


class Recorded:
    """Stands in for an SDK: an answer in the pieces in which it came once, one a turn of the event loop."""

    errors = SdkErrors(RuntimeError, RuntimeError, RuntimeError, (RuntimeError,))

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.headers = {"content-type": "text/event-stream"}

    @asynccontextmanager
    async def open(self, _body: dict[str, Any]) -> AsyncIterator[Recorded]:
        """See :class:`evolve.llm.sdk.Sdk`."""
        await asyncio.sleep(0)
        yield self

    async def iter_bytes(self, _chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """See :class:`evolve.llm.sdk.HttpReply`."""
        for piece in self._pieces:
            await asyncio.sleep(0)
            yield piece

    async def close(self) -> None:
        """Nothing is open."""


class Proposals:
    """Whole proposals, as the loop makes them."""

    def __init__(self, settings: LlmSettings, connect_to: Callable[[Endpoint], Sdk] = connect) -> None:
        clock = SystemClock()
        self.journal = MemoryJournal()
        self.client = ModelClient(
            settings, {"K": KEY}, Books(self.journal, Purse(usd_cap=1e6), PriceList.load(settings.prices))
        )
        with patch("evolve.llm.client.connect", connect_to):
            self.client.prepare()
        names = tuple(ModelName.parse(m.name) for m in MODELS)
        policy = make_policy(settings, {"diff": 1.0, "simplify": 1.0})
        self.ensemble = Ensemble(MODELS, policy, Breakers(names, clock), self.client)
        self.book = PromptBook()
        self.parent = ShownProgram(1, SEED, "cpp", "passed", "1.2 times as fast", workloads=("m: 200 us",) * 3)
        self.inspirations = tuple(replace(self.parent, number=n) for n in (2, 3))
        self.edits = EditContext(SEED, SEED, "cpp", TASK.entry, TASK.limits.source_bytes)
        self.known = KnownPrograms()
        self.known.add(1, SEED, "cpp")
        self.now = self.most = 0

    async def propose(self, number: int) -> None:
        """One proposal."""
        self.now += 1
        self.most = max(self.most, self.now)
        context = PromptContext("diff", task_facts(TASK), self.parent, inspirations=self.inspirations)
        arm = self.ensemble.choose(set(fitting(context)) & {"diff", "simplify"}, np.random.default_rng(number))
        prompt = self.book.render(replace(context, operator=arm.operator))
        spoken = await converse(self._asking(arm, prompt.system), prompt.user, self.edits, number, self.book)
        if not isinstance(spoken.outcome, Edited):
            raise SystemExit(f"the answer could not be used: {spoken.outcome.message}")
        if next(self.known.find(spoken.outcome.source, "cpp"), None) is not None:
            raise SystemExit("the answer equals the seed")
        self.now -= 1

    def _asking(self, arm: Arm, system: str) -> Any:
        return lambda turns, key: self.ensemble.ask(arm, Question(system, turns), key)


async def _measure(url: str, count: int, in_flight: int) -> tuple[dict[str, list[Cost]], int]:
    """All ways in turn, so that whatever else the machine does falls on all."""
    settings = _settings(url, in_flight)
    proposals = Proposals(settings)
    bodies = [_body(proposals, n) for n in range(2)]
    sdks = [connect(endpoint(settings, ModelName.parse(m.name), {"K": KEY})) for m in MODELS]

    async def bare(number: int) -> None:
        async with sdks[number % 2].open(bodies[number % 2]) as reply:
            async for _ in reply.iter_bytes():
                pass

    recorded = [await _pieces(sdk, body) for sdk, body in zip(sdks, bodies, strict=True)]
    own = Proposals(settings, lambda endpoint: Recorded(recorded[endpoint.wire == "anthropic"]))
    ways = {"whole": proposals.propose, "SDKs and HTTP": bare, "own": own.propose}
    for way in ways.values():
        await _timed(way, range(in_flight), in_flight)  # imports and connections
    proposals.most = 0
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for turn in range(ROUNDS):
        first = in_flight + turn * count
        for name, way in ways.items():
            costs[name].append(await _timed(way, range(first, first + count), in_flight))
    for sdk in sdks:
        await sdk.close()
    await proposals.client.close()
    return costs, proposals.most


async def _pieces(sdk: Sdk, body: dict[str, Any]) -> list[bytes]:
    async with sdk.open(body) as reply:
        return [piece async for piece in reply.iter_bytes()]


def _body(proposals: Proposals, which: int) -> dict[str, Any]:
    prompt = proposals.book.render(
        PromptContext("diff", task_facts(TASK), proposals.parent, inspirations=proposals.inspirations)
    )
    request = Request.to(MODELS[which], prompt.system, Message("user", prompt.user))
    return (ChatWire(), AnthropicWire())[which].body(request, Quirks())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--proposals", type=int, default=1000)
    parser.add_argument("-f", "--in-flight", type=int, default=200)
    parser.add_argument("-p", "--piece-ms", type=float, default=50.0, help="between two pieces of a stream")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        ours, theirs = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")
        server = spawn.Process(target=_serve, args=(theirs, arguments.piece_ms / 1e3), daemon=True)
        server.start()
        stack.callback(server.join)
        stack.callback(ours.send, "end")
        share = arguments.proposals // ROUNDS
        costs, most = asyncio.run(_measure(ours.recv(), share, arguments.in_flight))
    figures = {name: _spread([cost.cpu_ms for cost in found]) for name, found in costs.items()}
    wall_s = sum(cost.wall_s for cost in costs["whole"])
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{share * ROUNDS} proposals, at most {most} in flight, {wall_s:.1f} s")
    for name, (low, middle, high) in figures.items():
        print(f"CPU per proposal, {name:13} median {middle:6.2f} ms   ({low:.2f} to {high:.2f} over {ROUNDS} rounds)")
    print(f"peak memory {peak_mib:.0f} MiB")
    if arguments.output:
        facts = {
            "proposals": share * ROUNDS,
            "in_flight": most,
            "answer_characters": len(ANSWER),
            "cpu_ms_per_proposal": {name: {"median": m, "range": [lo, hi]} for name, (lo, m, hi) in figures.items()},
            "wall_s": wall_s,
            "peak_mib": peak_mib,
            "load_average_before": load,
        }
        write_record(arguments.output, "llm_concurrency", facts)


def _spread(values: list[float]) -> tuple[float, float, float]:
    """Lowest, median and highest over the rounds."""
    return min(values), median(values), max(values)


if __name__ == "__main__":
    main()
