"""What the judge costs besides a candidate's own rounds: a trivial C++ candidate that is already built.

    python -m benchmarks.judge_overhead [-n COUNT] [-o RESULT.json]

Prints, over COUNT evaluations in one judge, the median and the quartiles of each stage in milliseconds. ``rounds`` are
the candidate's; the sum of the others is the overhead.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median, quantiles

from benchmarks.record import write_record
from evaluators.evaluation import Status
from evaluators.judge import open_judge
from evaluators.task_loading import load_task

TASK = Path(__file__).parents[1] / "tests" / "data" / "double"


def measure(count: int) -> dict[str, list[float]]:
    """Milliseconds by stage, and ``overhead`` (everything but ``rounds``), one entry an evaluation."""
    task = load_task(TASK)
    source = (TASK / task.seed_program).read_text()
    times: dict[str, list[float]] = {}
    with open_judge(task, sandbox="full", lanes=1) as (judge, _):
        judge.calibrate()
        judge.evaluate(source, "cpp")  # built once
        for _ in range(count):
            evaluation = judge.evaluate(source, "cpp")
            if evaluation.status is not Status.PASSED:
                raise SystemExit(f"the trivial candidate failed: {evaluation.message}")
            stages = {name: 1e3 * seconds for name, seconds in evaluation.cost.stages_s.items()}
            stages["overhead"] = 1e3 * evaluation.cost.wall_s - stages["rounds"]
            for name, value in stages.items():
                times.setdefault(name, []).append(value)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--count", type=int, default=40)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    times = measure(arguments.count)
    rows = {}
    for name, values in times.items():
        low, _, high = quantiles(values, n=4)
        rows[name] = {"median_ms": median(values), "quartiles_ms": [low, high]}
        print(f"{name:12} {median(values):8.1f} ms   (quartiles {low:.1f} to {high:.1f})")
    if arguments.output:
        write_record(arguments.output, "judge_overhead", {"evaluations": arguments.count, "stages": rows})


if __name__ == "__main__":
    main()
