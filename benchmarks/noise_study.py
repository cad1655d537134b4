"""How often duels are wrong, what they see, and what other rules for ending them would have made of the same rounds.

    python -m benchmarks.noise_study record CONDITION [--minutes M] [--task TASK ...] [--turns T] [-o RESULT.jsonl]
    python -m benchmarks.noise_study report [-i RESULT.jsonl]

``record`` adds duels to what is recorded already, one line each, for as long as it is given: of a program with a copy
of itself, and with one that is 1, 2 and 5 % slower, on a task bound by memory, one bound by the processor and a tiny
one. It may be ended at any time, and goes on when it is called again. CONDITION is ``quiet`` (nothing else may run on
the machine), ``loaded`` (twice as many busy processes as there are cores, and one that copies memory), ``ordinary``
(the same, and a judge that may not have real-time priority) or ``shared`` (others use the machine as they like, and
the judge has no real-time priority either). Beside each duel stand load average, busy and stolen time of the machine.
``report`` needs no machine: it replays the recorded rounds under every rule and draws the figures of docs/timing.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from time import monotonic

from benchmarks.noise.load import loaded
from benchmarks.noise.records import Cell, Trial, append, append_failure, begin, failures, load
from benchmarks.noise.tables import tables
from benchmarks.noise.trials import Trials
from benchmarks.record import context
from evaluators.failure import CandidateFailure
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.plan import MOST_TURNS
from evaluators.priority import raise_priority
from evaluators.task_loading import load_task

TASKS = Path(__file__).with_name("noise") / "tasks"
RESULT = Path(__file__).with_name("results") / "noise_2026-11-30.jsonl"
PLAN = (0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 5.0)
"""By how many percent the occupant is slower, one duel after another: mostly copies, which is where being wrong would
show."""
SLICE_MINUTES = 5.0
"""Tasks are recorded in turns of this length, each with a new judge."""
MOST_FAILURES = 3
"""Recordings that come to nothing, one after another, as on a machine that is stopped for a while."""
FIGURES = Path(__file__).parents[1] / "docs" / "timing"
LOADED = ("loaded", "ordinary")
REALTIME = ("quiet", "loaded")
CONDITIONS = ("quiet", "loaded", "ordinary", "shared")


def record(task: str, condition: str, turns: int, deadline: float, path: Path) -> None:
    """Add duels of one task in one condition until a point in time."""
    folder = TASKS / task
    with ExitStack() as stack:
        if condition in LOADED:
            stack.enter_context(loaded(busy=2 * len(os.sched_getaffinity(0)), copying=1))
        priority = raise_priority() if condition in REALTIME else "ordinary"
        judge, _ = stack.enter_context(open_judge(load_task(folder), sandbox="full", lanes=1, priority=priority))
        assert isinstance(judge, KernelJudge)
        begin(path, {**context(), "condition": condition, "task": task, "priority": priority})
        trials, longest = Trials(judge, folder, condition), 0.0
        done = sum((t.cell.task, t.cell.condition) == (task, condition) for t in load(path))
        for percent in islice(cycle(PLAN), done % len(PLAN), None):
            started = monotonic()
            if started + longest > deadline:
                return
            try:
                trial = trials.run(percent, turns)
            except CandidateFailure as failure:
                append_failure(path, Cell(task, condition, turns, percent), failure.message)
                continue
            append(path, trial)
            longest = max(longest, monotonic() - started)
            tell(trial)


def report(path: Path, folder: Path) -> None:
    """Print the tables and draw the figures."""
    cells: dict[tuple[str, str, int, float], list[Trial]] = {}
    print(f"{len(failures(path))} duels in which an honest program failed: {failures(path)}\n")
    for trial in load(path):
        cell = trial.cell
        cells.setdefault((cell.task, cell.condition, cell.turns, cell.percent), []).append(trial)
    print("\n".join(tables(cells)))
    from benchmarks.noise.plots import draw  # noqa: PLC0415 - needs matplotlib, which recording does not

    draw(cells, folder)


def tell(trial: Trial) -> None:
    """One line a duel."""
    middle = sorted(trial.log_ratios)[len(trial.log_ratios) // 2]
    cell = trial.cell
    print(
        f"{cell.task:9} {cell.condition:9} {cell.turns:3} {cell.percent:3g} %  {1e2 * middle:+6.2f} %  "
        f"{trial.call_us:7.1f} us  waited {trial.waited:4.2f}  {trial.seconds:4.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("condition", choices=CONDITIONS)
    recording.add_argument("--minutes", type=float, default=4.0)
    recording.add_argument("--task", action="append", choices=sorted(p.name for p in TASKS.iterdir()))
    recording.add_argument("--turns", type=int, default=MOST_TURNS)
    recording.add_argument("-o", "--output", type=Path, default=RESULT)
    reporting = commands.add_parser("report")
    reporting.add_argument("-i", "--input", type=Path, default=RESULT)
    reporting.add_argument("--figures", type=Path, default=FIGURES)
    arguments = parser.parse_args()
    if arguments.command == "report":
        report(arguments.input, arguments.figures)
        return
    deadline = monotonic() + 60 * arguments.minutes
    tasks = arguments.task or sorted(p.name for p in TASKS.iterdir())
    if len(tasks) == 1:
        record(tasks[0], arguments.condition, arguments.turns, deadline, arguments.output)
        return
    failed = 0
    for task in cycle(tasks):  # a process each: real-time priority cannot be given back
        minutes = min(SLICE_MINUTES, arguments.minutes / len(tasks), (deadline - monotonic()) / 60)
        if minutes < min(SLICE_MINUTES, arguments.minutes / len(tasks)) / 2:
            return
        share = ["--minutes", f"{minutes:.2f}", "--task", task, "--turns", str(arguments.turns)]
        command = [sys.executable, "-m", __spec__.name, "record", arguments.condition, *share]
        ended = subprocess.run([*command, "-o", str(arguments.output)], check=False)
        failed = failed + 1 if ended.returncode else 0
        if failed == MOST_FAILURES:
            sys.exit("that went wrong too often")


if __name__ == "__main__":
    main()
