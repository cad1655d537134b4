"""A thousand draws of every shipped task: honest programs pass, mutants fail, the comparator agrees with an exact one.

    python -m benchmarks.numerics_seeds honest|mutants [--seeds N] [--families F] [--task TASK ...] [-o RESULT.json]

``honest`` compares every honest variant of a task's reference, and the same with its sums in an order drawn at random
(every seed another), beside the frozen limits: on every workload, with all of its rows' length but few rows, on F of
the input families, which take turns from seed to seed. Every fifth comparison is made in exact arithmetic as well.
``mutants`` compares every mutant on every scored workload. Both may be ended at any time and go on where they were, one
task after another; what they found lies in RESULT. They use one core, at the lowest priority.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.record import context
from tests.numerics import Findings, Numerics, rotating

TASKS = Path(__file__).parents[1] / "tasks"
SHIPPED = ("q4_matvec_cpu", "softmax", "matmul_bf16")
RESULT = Path(__file__).with_name("results") / "numerics_seeds_2026-11-30.json"
SAVE_EVERY = 10


@dataclass
class Course:
    """How far one task has come in one respect."""

    seeds: int = 0
    """Seeds done, from 0 on."""
    by_workload: dict[str, Findings] = field(default_factory=dict)

    def add(self, workload: str, found: Findings) -> None:
        """Take in what one draw showed."""
        self.by_workload.setdefault(workload, Findings()).add(found)


def load(path: Path) -> dict[str, Course]:
    """Courses by ``honest softmax`` and so on; none where nothing was recorded."""
    if not path.exists():
        return {}
    courses = json.loads(path.read_text())["courses"]
    return {
        name: Course(one["seeds"], {workload: Findings(**found) for workload, found in one["by_workload"].items()})
        for name, one in courses.items()
    }


def save(path: Path, courses: dict[str, Course]) -> None:
    """Write them all, atomically."""
    content = {
        "benchmark": "numerics_seeds",
        "context": context(),
        "courses": {name: asdict(course) for name, course in courses.items()},
    }
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content, indent=1) + "\n")
    draft.replace(path)


def draws(numerics: Numerics, kind: str, families: int, seed: int) -> Iterator[tuple[str, Findings]]:
    """One seed of a task, workload by workload."""
    for workload in numerics.workloads():
        if kind == "honest":
            yield workload.name, numerics.honest(workload, rotating(numerics.families, seed, families), seed)
        elif workload.split == "search":
            yield workload.name, numerics.surviving(workload, seed)


def run(kind: str, task: str, seeds: int, families: int, path: Path) -> None:
    """One task, from where it was."""
    numerics, courses = Numerics(TASKS / task), load(path)
    course = courses.setdefault(f"{kind} {task}", Course())
    while course.seeds < seeds:
        for workload, found in draws(numerics, kind, families, course.seeds):
            course.add(workload, found)
        course.seeds += 1
        if course.seeds % SAVE_EVERY == 0 or course.seeds == seeds:
            save(path, courses)
    failures = [words for found in course.by_workload.values() for words in found.failures]
    print(f"{kind} {task}: {course.seeds} seeds, {len(failures)} failures {failures[:3]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("honest", "mutants"))
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--families", type=int, default=1)
    parser.add_argument("--task", action="append", choices=SHIPPED)
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    os.nice(19)
    with threadpool_limits(1):
        for task in arguments.task or SHIPPED:
            run(arguments.kind, task, arguments.seeds, arguments.families, arguments.output)
    found = [f for course in load(arguments.output).values() for f in course.by_workload.values()]
    if any(one.failures for one in found):
        sys.exit("failures are in the result")


if __name__ == "__main__":
    main()
