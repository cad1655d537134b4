"""What the judge on a GPU makes of every cheat and every honest program of the corpus, as a table.

    python -m benchmarks.gpu_corpus OUT.json [--task softmax] [--limit-s 500] [--only NAME ...] [--commit HASH]

Needs an NVIDIA GPU, torch and Triton. One judge a task; goes on after whatever a program does, starts no further one
when the time is over, and saves after each. Nothing about the device is changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.task_loading import load_task
from tests.exploits.gpu.corpus import TASKS, GpuProgram, exploits, honest_programs
from tests.exploits.gpu.verdicts import SECRET, GpuCourt, GpuVerdict

FIRST = ("plain.cu", "plain.py")
"""Where these do not pass nothing else need be looked at."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--task", action="append", choices=["softmax", "softmax_bf16", "matmul_bf16"])
    parser.add_argument("--limit-s", type=float, default=500.0, help="no program is started later than this")
    parser.add_argument("--only", nargs="*", default=[], help="file names of programs")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(),
        "commit": arguments.commit,
        "tasks": {},
        "rows": [],
    }
    os.environ["SECRET"] = SECRET
    for task in arguments.task or ["softmax"]:
        programs = [p for p in chosen(task) if not arguments.only or p.name in arguments.only]
        for row in judged(task, programs, deadline, record):
            record["rows"].append(row)
            show(row)
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    return summary(record["rows"])


def chosen(task: str) -> list[GpuProgram]:
    """The task's programs: honest ones, the plain ones first, then cheats; none that only a compiler works on."""
    found = [p for p in (*honest_programs(), *exploits()) if p.task == task and not p.slow]
    return sorted(found, key=lambda p: (p.name not in FIRST, not p.honest, p.name))


def judged(
    task: str, programs: Sequence[GpuProgram], deadline: float, record: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """One row a program."""
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        open_judge(load_task(TASKS / task), sandbox="full", lanes=1) as (judge, environment),
    ):
        if not isinstance(judge, KernelJudge):
            sys.exit("no GPU on this machine")
        judge.calibrate()
        facts = record["tasks"][task] = {"ready_s": time.monotonic() - started}
        facts["baselines_since"] = judge.bench.cache.since
        record["environment"] = environment.model_dump(mode="json")
        secret = Path(folder) / "secret.txt"
        secret.write_text(SECRET)
        court = GpuCourt(judge, task, {"SECRET_FILE": str(secret)})
        court.build(programs)
        facts["ready_and_built_s"] = time.monotonic() - started
        for program in programs:
            if time.monotonic() > deadline:
                yield {**head(task, program), "status": "not run", "ok": None}
                continue
            begun = time.monotonic()
            try:
                row = facts_of(court.verdict(program))
            except Exception as error:  # a cheat that breaks the judge is to be seen in the table, not to end it
                row = {"status": "no verdict", "ok": False, "message": f"{type(error).__name__}: {error}"}
            yield {**head(task, program), **row, "wall_s": time.monotonic() - begun}


def head(task: str, program: GpuProgram) -> dict[str, Any]:
    return {
        "task": task,
        "name": program.name,
        "honest": program.honest,
        "kinds": list(program.kinds),
        "language": program.language,
        "expected": sorted(program.statuses),
        "stopped_by": program.stopped_by,
    }


def facts_of(verdict: GpuVerdict) -> dict[str, Any]:
    return {
        "status": verdict.status,
        "score": verdict.score,
        "message": verdict.message[:300],
        "gained": verdict.gained,
        "stole": verdict.stole,
        "attempts": verdict.attempts,
        "device_s": verdict.device_s,
        "ok": verdict.ok,
    }


def show(row: dict[str, Any]) -> None:
    score = f"{row['score']:.3f}" if row.get("score") else "-"
    word = {True: "ok", False: "NOT OK", None: "-"}[row["ok"]]
    kinds = "honest" if row["honest"] else ",".join(map(str, row["kinds"]))
    took = f"{row.get('wall_s', 0):.1f} s"
    first = f"{word:6} {row['name']:34} {row['language']:6} {kinds:9} {row['status']:16} {score:>6} {took:>7}"
    print(f"{first}  {row.get('message', '')[:90]}", flush=True)


def summary(rows: Sequence[dict[str, Any]]) -> int:
    """One line; 1 where something was not as expected."""
    wrong = [r["name"] for r in rows if r["ok"] is False]
    ran = sum(r["ok"] is not None for r in rows)
    print(f"{ran} of {len(rows)} programs judged; not as expected: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
