"""What a proposal costs the loop's process while many models are being asked at once.

    python -m benchmarks.llm_concurrency [-n PROPOSALS] [-f IN_FLIGHT] [-o RESULT.json]

CPU time of this one process for each proposal on the shipped task ``q4_matvec_cpu``, measured in several ways, in turn:

* *a run*: all there is. A search on SQLite asks over loopback through the official SDKs: parents are chosen, prompts
  tell of the run's programs, failures and lessons, calls are reserved and booked, answers read and looked up, programs
  stored, judged and placed. Only the judge is a stand-in that answers at once. What starting costs is not counted.
* *SDKs and HTTP*: the same requests made by the SDKs alone, reading the bytes and dropping them. Nothing of ours can
  make that faster.
* *own, a run*: the same run with the SDKs replaced by something that hands over the same bytes in the same pieces.
* *own, a proposal*: of that only what happens between the choice of a model and the program it makes of its answer
  (choice, prompt, reservation, stream, booking, edit, a look whether it is known), for one parent, with the run's
  journal and budget on SQLite.
* *own, in memory*: the same with a journal and a budget that no database is behind.
* *stand-in*: the pieces that take the SDKs' place, read and dropped. It is in all that is *own*, and so is a turn of
  the event loop for each piece, which the SDKs' share has as well.

The models are a server in a process of its own that streams an answer of about 1,400 characters in some 60 pieces.
What *a run* costs beyond *own, a run* and the SDKs is what they cost each other: the caches of one core hold only so
much.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.llm_ways import KEY, PacedRun, Proposals, Recorded, answer, stand_in_task
from benchmarks.record import write_record
from evaluators.task import Task
from evolve.llm.provider import endpoint
from evolve.llm.quirks import Quirks
from evolve.llm.request import Message, Request
from evolve.llm.sdk import Sdk, connect
from evolve.llm.settings import LlmSettings, ModelName, ModelSettings, PriceSettings, ProviderSettings
from evolve.llm.wire_anthropic import AnthropicWire
from evolve.llm.wire_chat import ChatWire
from evolve.model_books import RunGate, RunJournal
from evolve.run import Run
from evolve.settings import RunSettings
from evolve.testing_llm.model_server import Manners, ModelServer
from evolve.testing_llm.replies import Asked, Reply

TASK = Path(__file__).parents[1] / "tasks" / "q4_matvec_cpu"
ROUNDS = 5
MODELS = (ModelSettings(name="first/m"), ModelSettings(name="second/m"))

Work = Callable[[range], Awaitable[None]]
"""Makes proposals of these numbers."""


def serve(pipe: Connection, piece_s: float) -> None:
    """The server's process: says where it listens, and ends when told to."""

    async def run() -> None:
        def script(asked: Asked) -> Reply:
            return Reply(answer(asked.number))

        async with ModelServer(script, Manners(key=KEY, piece_s=piece_s)) as server:
            pipe.send(server.url)
            await asyncio.get_running_loop().run_in_executor(None, pipe.recv)

    asyncio.run(run())


def configured(url: str, in_flight: int) -> LlmSettings:
    """Two models, one behind each of the two SDKs."""
    price = PriceSettings(input=1.0, output=4.0)
    return LlmSettings(
        models=MODELS,
        providers={
            "first": ProviderSettings(wire="chat", base_url=f"{url}/v1", key_env="K", concurrency=in_flight),
            "second": ProviderSettings(wire="anthropic", base_url=url, key_env="K", concurrency=in_flight),
        },
        prices={model.name: price for model in MODELS},
    )


def at_once(work: Callable[[int], Awaitable[None]], in_flight: int) -> Work:
    """Numbered pieces of work, at most ``in_flight`` at once."""

    async def all_of_them(which: range) -> None:
        numbers = iter(which)

        async def worker() -> None:
            for number in numbers:
                await work(number)

        await asyncio.gather(*(worker() for _ in range(in_flight)))

    return all_of_them


class Bench:
    """All ways of one measurement, with what they need."""

    def __init__(self, folder: Path, task: Task, settings: LlmSettings, in_flight: int) -> None:
        self._folder = folder
        self._task = task
        self._settings = settings
        self._in_flight = in_flight
        self._endpoints = [endpoint(settings, ModelName.parse(m.name), {"K": KEY}) for m in MODELS]
        self.runs: list[PacedRun] = []

    async def ways(self, stack: AsyncExitStack) -> dict[str, Work]:
        """Each way by its name; ``stack`` closes what they open."""
        real, own = [await self._paced(stack, connect_to) for connect_to in (connect, Recorded)]
        run = stack.enter_context(Run.create(self._folder / "books", self._task, RunSettings()))
        journal, gate = RunJournal(run.storage, run.booking), RunGate(run.budget)
        booked = Proposals(self._task, self._settings, Recorded, journal, gate)
        forgetful = Proposals(self._task, self._settings, Recorded)
        sdks = [connect(where) for where in self._endpoints]
        for sdk in sdks:
            stack.push_async_callback(sdk.close)
        return {
            "a run": lambda which: real.go_on(len(which)),
            "SDKs and HTTP": self._dropped(sdks),
            "own, a run": lambda which: own.go_on(len(which)),
            "own, a proposal": at_once(booked.propose, self._in_flight),
            "own, in memory": at_once(forgetful.propose, self._in_flight),
            "stand-in": self._dropped([Recorded(where) for where in self._endpoints]),
        }

    async def _paced(self, stack: AsyncExitStack, connect_to: Callable[[Any], Sdk]) -> PacedRun:
        folder = self._folder / f"run-{len(self.runs)}"
        paced = PacedRun(folder, self._task, self._settings, connect_to, self._in_flight)
        self.runs.append(await stack.enter_async_context(paced))
        return paced

    def _dropped(self, sdks: list[Sdk]) -> Work:
        """Answers read and dropped."""
        prompt = Proposals(self._task, self._settings, Recorded).prompt()
        message = Message("user", prompt.user)
        bodies = [
            wire.body(Request.to(model, prompt.system, message), Quirks())
            for wire, model in zip((ChatWire(), AnthropicWire()), MODELS, strict=True)
        ]

        async def one(number: int) -> None:
            async with sdks[number % 2].open(bodies[number % 2]) as reply:
                async for _ in reply.iter_bytes():
                    pass

        return at_once(one, self._in_flight)


async def measure(url: str, count: int, in_flight: int) -> tuple[dict[str, list[float]], int]:
    """CPU milliseconds a proposal: all ways in turn, so that whatever else the machine does falls on all."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        task = stand_in_task(folder / "task", TASK)
        bench = Bench(folder, task, configured(url, in_flight), in_flight)
        ways = await bench.ways(stack)
        for work in ways.values():
            await work(range(in_flight))  # imports and connections
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(ROUNDS):
            first = in_flight + turn * count
            for name, work in ways.items():
                cpu = time.process_time()
                await work(range(first, first + count))
                costs[name].append(1e3 * (time.process_time() - cpu) / count)
        return costs, min(run.most for run in bench.runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--proposals", type=int, default=1000)
    parser.add_argument("-f", "--in-flight", type=int, default=200)
    parser.add_argument("-p", "--piece-ms", type=float, default=50.0, help="between two pieces of a stream")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        ours, theirs = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")
        server = spawn.Process(target=serve, args=(theirs, arguments.piece_ms / 1e3), daemon=True)
        server.start()
        stack.callback(server.join)
        stack.callback(ours.send, "end")
        share = arguments.proposals // ROUNDS
        costs, most = asyncio.run(measure(ours.recv(), share, arguments.in_flight))
    figures = {name: _spread(found) for name, found in costs.items()}
    shares = {name: _spread(_ratios(found, costs["SDKs and HTTP"])) for name, found in costs.items()}
    print(f"{share * ROUNDS} proposals, {most} in flight; CPU for each, median (lowest to highest of {ROUNDS} rounds)")
    for name, found in figures.items():
        print(f"{name:16} {_shown(found):24} ms   {_shown(shares[name]):20} of the SDKs and HTTP in that round")
    if arguments.output:
        facts = {
            "proposals": share * ROUNDS,
            "in_flight": most,
            "answer_characters": len(answer(1)),
            "cpu_ms_per_proposal": {name: _recorded(found) for name, found in figures.items()},
            "share_of_sdks_and_http": {name: _recorded(found) for name, found in shares.items()},
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "load_average_before": load,
        }
        write_record(arguments.output, "llm_concurrency", facts)


def _ratios(costs: list[float], others: list[float]) -> list[float]:
    return [cost / other for cost, other in zip(costs, others, strict=True)]


def _spread(values: list[float]) -> tuple[float, float, float]:
    """Lowest, median and highest over the rounds."""
    return min(values), median(values), max(values)


def _shown(spread: tuple[float, float, float]) -> str:
    low, middle, high = spread
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _recorded(spread: tuple[float, float, float]) -> dict[str, object]:
    low, middle, high = spread
    return {"median": round(middle, 4), "range": [round(low, 4), round(high, 4)]}


if __name__ == "__main__":
    main()
