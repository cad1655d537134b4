"""How often duels are wrong, what they see, and what other rules for ending them would have made of the same rounds.

    python -m benchmarks.noise_study record CONDITION [--minutes M] [--task TASK ...] [-o RESULT.json]
    python -m benchmarks.noise_study report [-i RESULT.json]

``record`` adds duels to what is recorded already, for as long as it is given: of a program with a copy of itself, and
with one that is 1, 2 and 5 % slower, on a task bound by memory, one bound by the processor and a tiny one. CONDITION
is ``quiet`` (nothing else may run on the machine), ``loaded`` (twice as many busy processes as there are cores, and
one that copies memory), or ``ordinary`` (the same, and a judge that may not have real-time priority). ``report`` needs
no machine: it replays the recorded rounds under every rule and draws the figures of docs/timing.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from time import monotonic

from benchmarks.noise.load import loaded
from benchmarks.noise.tables import tables
from benchmarks.noise.trials import Trial, Trials, load, save
from benchmarks.record import context
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.plan import MOST_TURNS
from evaluators.priority import raise_priority
from evaluators.task_loading import load_task

TASKS = Path(__file__).with_name("noise") / "tasks"
RESULT = Path(__file__).with_name("results") / "noise_2026-11-30.json"
PLAN = tuple(
    (percent, turns)
    for percent in (0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 5.0)
    for turns in ((MOST_TURNS, 1) if percent in (0.0, 2.0) else (MOST_TURNS,))
)
"""Percent and turns of one duel after another: mostly copies, which is where being wrong would show."""
FIGURES = Path(__file__).parents[1] / "docs" / "timing"
CONDITIONS = ("quiet", "loaded", "ordinary")


def record(task: str, condition: str, deadline: float, path: Path) -> None:
    """Add duels of one task in one condition until a point in time."""
    folder = TASKS / task
    with ExitStack() as stack:
        if condition != "quiet":
            stack.enter_context(loaded(busy=2 * len(os.sched_getaffinity(0)), copying=1))
        priority = "ordinary" if condition == "ordinary" else raise_priority()
        judge, _ = stack.enter_context(open_judge(load_task(folder), sandbox="full", lanes=1, priority=priority))
        assert isinstance(judge, KernelJudge)
        trials, known = Trials(judge, folder, condition), load(path)
        longest = 0.0
        done = sum((t.cell.task, t.cell.condition) == (task, condition) for t in known)
        plan = cycle(PLAN)
        for _ in range(done):
            next(plan)
        while monotonic() + longest < deadline:
            started = monotonic()
            known.append(trials.run(*next(plan)))
            longest = max(longest, monotonic() - started)
            tell(known[-1])
            save(path, {**context(), "priority": priority}, known)


def report(path: Path, folder: Path) -> None:
    """Print the tables and draw the figures."""
    cells: dict[tuple[str, str, int, float], list[Trial]] = {}
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
    recording.add_argument("-o", "--output", type=Path, default=RESULT)
    reporting = commands.add_parser("report")
    reporting.add_argument("-i", "--input", type=Path, default=RESULT)
    reporting.add_argument("--figures", type=Path, default=FIGURES)
    arguments = parser.parse_args()
    if arguments.command == "report":
        report(arguments.input, arguments.figures)
        return
    tasks = arguments.task or sorted(p.name for p in TASKS.iterdir())
    if len(tasks) == 1:
        record(tasks[0], arguments.condition, monotonic() + 60 * arguments.minutes, arguments.output)
        return
    for task in tasks:  # a process each: real-time priority cannot be given back
        share = ["--minutes", str(arguments.minutes / len(tasks)), "--task", task, "-o", str(arguments.output)]
        subprocess.run([sys.executable, "-m", __spec__.name, "record", arguments.condition, *share], check=True)


if __name__ == "__main__":
    main()
