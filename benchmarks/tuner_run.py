"""What the tuner alone makes of a task in a minute, and whether ``evolve eval`` agrees with what the run says of it.

    python -m benchmarks.tuner_run [TASK] [--seconds S] [-o RESULT.json]

The three commands are typed as a user would: a run with a cap on its time, the best program exported, and that file
judged by another process. Prints the speed-up over the strongest baseline as both saw it, each with its interval, and
over the seed. Exit code 1 where the two intervals have nothing in common, or the best is no faster than the seed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.record import write_record

TRIES = 3
"""Evaluations, as long as the machine is too noisy for a time."""
EVOLVE = [sys.executable, "-c", "from evolve.cli import main; main()"]


def evolve(*arguments: str) -> dict[str, Any]:
    """One command's JSON."""
    done = subprocess.run([*EVOLVE, *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measure(task: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Run, export, judge again."""
    run = str(folder / "run")
    summary = evolve("run", task, "--dir", run, "--set", f"caps.seconds={seconds:g}")
    file = str(folder / "best.cpp")
    evolve("best", run, "-o", file)
    refusals: list[str] = []
    while "speedup" not in (timing := evolve("eval", task, file)["timing"]):
        refusals.append(timing["reason"])
        if len(refusals) == TRIES:
            raise SystemExit(f"no time after {TRIES} tries: {refusals[-1]}")
    seed = summary["seed_score"]
    said, seen = summary["speedup"], timing["speedup"]
    return {
        "task": task,
        "seconds": seconds,
        "candidates": summary["tried"],
        "verdicts": summary["verdicts"],
        "strongest_baselines": summary["strongest_baselines"],
        "best": summary["best"],
        "seed_score": seed,
        "gain_over_seed": summary["score"] / seed,
        "speedup_said_by_the_run": said,
        "speedup_seen_by_eval": seen,
        "evaluations_without_a_time": refusals,
        "intervals_overlap": max(said["low"], seen["low"]) <= min(said["high"], seen["high"]),
        "log_distance": abs(math.log(said["estimate"] / seen["estimate"])),
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="q4_matvec_cpu")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.task, arguments.seconds, Path(folder))
    for name, value in figures.items():
        print(f"{name:26} {value}")
    if arguments.output:
        write_record(arguments.output, "tuner_run", figures)
    sys.exit(0 if figures["intervals_overlap"] and figures["gain_over_seed"] > 1 else 1)


if __name__ == "__main__":
    main()
