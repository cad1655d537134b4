"""What a profile costs beside the evaluation of the same program, on one task's seed and baselines.

    python -m benchmarks.profile_cost [TASK] [-n COUNT] [-o RESULT.json]

Prints for the seed program, over COUNT profiles, the median seconds by stage (the build is another one, with line
tables), samples taken, and the limit that was found each time.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from statistics import median
from typing import cast

from benchmarks.record import write_record
from evaluators.evaluation import Cost
from evaluators.judge import open_judge
from evaluators.priority import raise_priority
from evaluators.task import Language
from evaluators.task_loading import find_task, load_task


def measure(name: str, count: int) -> dict[str, object]:
    """Medians over ``count`` profiles of the task's seed program, each built anew, and one evaluation beside them."""
    task = load_task(find_task(name))
    source = (task.folder / task.seed_program).read_text(encoding="utf-8")
    language = cast(Language, task.languages[0])
    priority = raise_priority()
    with open_judge(task, sandbox="full", lanes=1, priority=priority) as (judge, _):
        judge.calibrate()
        evaluation = judge.evaluate(source, language)
        # Blanks at the end of a line change nothing but the text, so that each is built.
        profiles = [judge.profile(source.replace("\n", " " * n + "\n", 1), language) for n in range(count)]
    found = [profile for profile in profiles if profile is not None and profile.measured]
    if len(found) < count:
        raise SystemExit(f"only {len(found)} of {count} profiles could be made: {profiles}")
    return {
        "task": task.name,
        "priority": priority,
        "profiles": count,
        "build_s": median(p.cost.build_s for p in found),
        "device_s": median(p.cost.device_s for p in found),
        "samples": median(p.samples for p in found),
        "limits": dict(Counter(str(p.bottleneck) for p in found)),
        "hottest_line": dict(Counter(str(p.hot_spots[0].line) for p in found if p.hot_spots)),
        "evaluation": _seconds(evaluation.cost),
    }


def _seconds(cost: Cost) -> dict[str, float]:
    return {"build_s": cost.build_s, "device_s": cost.device_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="q4_matvec_cpu")
    parser.add_argument("-n", "--count", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    figures = measure(arguments.task, arguments.count)
    for name, value in figures.items():
        print(f"{name:14} {value}")
    if arguments.output:
        write_record(arguments.output, "profile_cost", figures)


if __name__ == "__main__":
    main()
