"""Candidates a second of the whole system: loop, database, judge and sandbox, two evaluations in flight.

    python -m benchmarks.throughput [-n CANDIDATES] [-o RESULT.json]

A scripted proposer answers at once; the task is value-scored, in Python, one call. Every candidate gets its own
sandboxed process. Prints the rate over each tenth of the run, and the memory of the loop's and the judge's process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.record import write_record
from evaluators.client import JudgeSettings, ProcessJudge, start_judge
from evaluators.task_loading import load_task
from evolve.loop import WeightedProposer, search
from evolve.observer import Silent
from evolve.proposers.scripted import Scripted
from evolve.run import Run
from evolve.settings import Caps, RunSettings, SearchSettings
from evolve.types import Program, ProposeContext

TASK = Path(__file__).parents[1] / "tests" / "data" / "point"


def another_point(context: ProposeContext) -> str:
    """A program that nobody has proposed before; a few of them are the best so far."""
    angle = float(context.rng.uniform(0.0, 1.57))
    return (
        f"import math  # {context.number}\n\n\ndef point(out):\n"
        f"    out[0] = 0.999 * math.cos({angle!r})\n    out[1] = 0.999 * math.sin({angle!r})\n"
    )


class Stopwatch(Silent):
    """When each candidate was finished, and what the judge's process uses."""

    def __init__(self) -> None:
        self.finished: list[float] = []
        self.verdicts: dict[str, int] = {}

    def on_program(self, program: Program) -> None:
        """One more."""
        self.finished.append(time.perf_counter())
        status = program.evaluation.status.value if program.evaluation else "none"
        self.verdicts[status] = self.verdicts.get(status, 0) + 1


def peak_mib(pid: int) -> float:
    """The most resident memory that a living process has used."""
    for row in Path(f"/proc/{pid}/status").read_text().splitlines():
        if row.startswith("VmHWM:"):
            return int(row.split()[1]) / 1024
    return 0.0


async def measure(count: int, folder: Path) -> dict[str, object]:
    """Run ``count`` candidates; the figures."""
    task = load_task(TASK)
    watch = Stopwatch()
    judges: list[ProcessJudge] = []
    judge_mib: list[float] = []

    async def factory() -> ProcessJudge:
        judge = await start_judge(JudgeSettings(TASK, lanes=2))
        judges.append(judge)
        close = judge.close

        async def close_and_look() -> None:
            judge_mib.append(peak_mib(judge.pid))
            await close()

        judge.close = close_and_look  # type: ignore[method-assign]
        return judge

    settings = RunSettings(search=SearchSettings(lanes=2, queue=2), caps=Caps(candidates=count))
    cpu_before = time.process_time()
    with Run.create(folder / "run", task, settings) as run:
        outcome = await search(run, factory, [WeightedProposer(Scripted(another_point))], observers=[watch])
    cpu_s = time.process_time() - cpu_before
    step = max(count // 10, 1)
    marks = watch.finished[::step]
    rates = [(step) / (b - a) for a, b in itertools.pairwise(marks)]
    return {
        "candidates": len(watch.finished),
        "outcome": outcome.text,
        "verdicts": watch.verdicts,
        "candidates_per_s": (len(watch.finished) - 1) / (watch.finished[-1] - watch.finished[0]),
        "candidates_per_s_by_tenth": [round(rate, 1) for rate in rates],
        "loop_cpu_ms_per_candidate": 1e3 * cpu_s / len(watch.finished),
        "loop_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "judge_peak_mib": max(judge_mib, default=0.0),
        "judges_started": len(judges),
        "load_average_before": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--count", type=int, default=2000)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(arguments.count, Path(folder)))
    for name, value in figures.items():
        print(f"{name:28} {value}")
    if arguments.output:
        write_record(arguments.output, "throughput", figures)


if __name__ == "__main__":
    main()
