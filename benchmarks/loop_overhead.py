"""What the loop and its database cost a candidate, with a judge and a proposer that answer at once.

Everything is real but those two: two evaluations in flight, SQLite on disk, three transactions a candidate. Prints
JSON; CPU time is this process's, the judge excluded because it does nothing.

    python -m benchmarks.loop_overhead --candidates 20000 --lanes 2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.record import write_record
from evaluators.task import ArchiveDimension
from evolve.loop import WeightedProposer, search
from evolve.observer import Silent
from evolve.run import Run
from evolve.settings import Caps, RunSettings, SearchSettings
from evolve.testing import FakeJudge, FakeProposer, fake_source, fake_task
from evolve.types import Program, ProposeContext

MARKS = (200, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


class Meter(Silent):
    """Takes CPU and wall-clock time whenever a mark is passed."""

    def __init__(self) -> None:
        self._finished = 0
        self._last = (0, time.process_time(), time.perf_counter())
        self.windows: list[dict[str, float]] = []

    def on_program(self, program: Program) -> None:
        """See :class:`evolve.observer.Observer`."""
        self._finished += 1
        if self._finished in MARKS:
            self.mark()

    def mark(self) -> None:
        """Close the window that began at the last mark."""
        then, cpu, wall = self._last
        now = (self._finished, time.process_time(), time.perf_counter())
        candidates = now[0] - then
        if candidates == 0:
            return
        window = {
            "from": then,
            "to": now[0],
            "cpu_ms_a_candidate": round(1e3 * (now[1] - cpu) / candidates, 3),
            "wall_ms_a_candidate": round(1e3 * (now[2] - wall) / candidates, 3),
            "memory_mb": round(resident_mb(), 1),
            "reference_ms": reference_ms(),
        }
        self._last = (now[0], time.process_time(), time.perf_counter())
        self.windows.append(window)
        print(json.dumps(window), file=sys.stderr)


def reference_ms() -> float:
    """CPU time of a fixed piece of Python: tells a slow or crowded machine from a slow loop."""
    began = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return round(1e3 * (time.process_time() - began), 1)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def propose(context: ProposeContext) -> str:
    """A program of about a kilobyte whose score and measure are drawn from ``rng``; a new best now and then."""
    score = float(context.rng.exponential())
    return fake_source(score, text=f"# {context.number}\n" + "x = 1\n" * 160, regs=float(context.rng.integers(64)))


async def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    dimension = ArchiveDimension(measure="regs", low=0, high=64, bins=arguments.cells)
    task = fake_task(folder / "task", archive=(dimension,), seed_source=fake_source(0.1, regs=1.0))
    settings = RunSettings(
        search=SearchSettings(lanes=arguments.lanes, queue=arguments.lanes, islands=arguments.islands),
        caps=Caps(candidates=arguments.candidates),
    )
    meter = Meter()

    async def start() -> FakeJudge:
        return ForgetfulJudge()

    with Run.create(folder / "run", task, settings, url=arguments.url) as run:
        meter._last = (0, time.process_time(), time.perf_counter())
        await search(run, start, [WeightedProposer(ForgetfulProposer(propose))], observers=[meter])
        meter.mark()
    database = folder / "run" / "run.db"
    return {
        "windows": meter.windows,
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "database_bytes_a_candidate": round(database.stat().st_size / arguments.candidates)
        if database.exists()
        else None,
    }


class ForgetfulJudge(FakeJudge):
    """Keeps no list of what it was asked, which would count as the loop's memory."""

    async def _enter(self, method: str, source: str) -> None:
        await super()._enter(method, source)
        self.evaluated.clear()
        self.confirmed.clear()


class ForgetfulProposer(FakeProposer):
    """Keeps no list of what it was told."""

    def tell(self, program: Program) -> None:
        """See :class:`evolve.types.Proposer`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--islands", type=int, default=2)
    parser.add_argument("--cells", type=int, default=16)
    parser.add_argument("--url", help="another database than SQLite in a temporary folder")
    parser.add_argument("--output", type=Path, help="where to record the figures as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(Path(folder), arguments))
    figures = {name: getattr(arguments, name) for name in ("candidates", "lanes", "islands", "cells")} | result
    print(json.dumps(figures, indent=1))
    if arguments.output:
        write_record(arguments.output, "loop_overhead", figures)


if __name__ == "__main__":
    main()
