"""What a tuner run makes of a GPU task, what it costs, and what its candidates cost in a process of their own each.

    python -m benchmarks.gpu_tuner TASK OUT.json [--seconds S] [--lanes L] [--apart A] [--commit HASH]

The run is the command that a user types. Prints candidates an hour, the share of the lease that was spent judging and
the share between *go* and reply, the best with its interval beside the strongest baseline and its share of what the
device can do. Then, for ``A`` of its candidates: a fresh process that imports torch and Triton, compares with torch and
times every search workload with ``do_bench``. Needs an NVIDIA GPU. Nothing about the device is changed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluators.ceilings import FLOOR_MARGIN
from evaluators.evaluation import Evaluation
from evolve.types import Program
from evolve.view import RunView

EVOLVE = [sys.executable, "-c", "from evolve.cli import main; main()"]
RUN_DEADLINE_S = 500
APART = """
import json, sys, time
started = time.monotonic()
from pathlib import Path
from benchmarks.gpu_judge import arrays, load_entry, scalars
from evaluators.task_loading import find_task, load_task
from triton.testing import do_bench
import torch
task = load_task(find_task(sys.argv[1]))
entry = load_entry(task, Path(sys.argv[2]))
times = {}
for workload in task.search_workloads():
    made, axes = arrays(task, workload.axes), scalars(task, workload.axes)
    entry(*made, *axes)
    *inputs, out = made
    right = torch.softmax(inputs[0], 1) if task.entry == "softmax" else inputs[0] @ inputs[1].T
    torch.testing.assert_close(out, right, rtol=2e-2, atol=2e-2)
    times[workload.name] = 1e3 * do_bench(lambda: entry(*made, *axes), return_mode="median")
print(json.dumps({"us": times, "inside_s": time.monotonic() - started}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("out", type=Path)
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300.0, help="of the run, until the judge is ready included")
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--apart", type=int, default=4)
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    record: dict[str, Any] = {"date": datetime.now(UTC).isoformat(), "commit": arguments.commit}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        record |= tuner_run(arguments.task, run, arguments.candidates, arguments.seconds, arguments.lanes)
        save(arguments.out, record)
        record["apart"] = apart(arguments.task, run, arguments.apart, Path(folder))
    save(arguments.out, record)
    show(record)


def tuner_run(task: str, run: Path, candidates: int, seconds: float, lanes: int) -> dict[str, Any]:
    """Run the command and read what it wrote."""
    settings = [
        f"caps.candidates={candidates}",
        f"caps.seconds={seconds:g}",
        f"search.lanes={lanes}",
        f"search.queue={lanes}",
    ]
    command = [*EVOLVE, "run", task, "--dir", str(run), *(w for s in settings for w in ("--set", s))]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_DEADLINE_S)
    wall_s = time.monotonic() - started
    if done.returncode != 0:
        raise SystemExit(f"exit {done.returncode}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    with RunView.open(run) as view:
        rows = view.storage.table()
        programs = [view.program(row["number"]) for row in rows]
        duels = [duel for program in programs for _, duel in view.duels(program.number)]
        best = view.best()
    judged = [p for p in programs if p.evaluation is not None]
    seed, others = judged[0], judged[1:]
    costs = [e.cost for p in others for e in (p.evaluation, p.confirmation) if e is not None]
    costs += [duel.cost for duel in duels]
    costs += [p.profile.cost for p in others if p.profile is not None]
    ends = sorted(row["judged_at"] for row in rows if row["judged_at"] is not None)
    span_s = ends[-1] - ends[0]
    seed_done = next(row["finished_at"] for row in rows if row["number"] == seed.number)
    after_seed = [at for at in ends if at > seed_done]
    after_s = max(ends[-1] - seed_done, 1e-9)
    statuses: dict[str, int] = {}
    for program in others:
        statuses[str(program.evaluation.status)] = statuses.get(str(program.evaluation.status), 0) + 1  # type: ignore[union-attr]
    return {
        "task": task,
        "lanes": lanes,
        "environment": seed.evaluation.environment.model_dump(mode="json"),  # type: ignore[union-attr]
        "wall_s": wall_s,
        "ready_and_seed_s": wall_s - span_s,
        "candidates": len(others),
        "statuses": statuses,
        "span_s": span_s,
        "candidates_an_hour": 3600 * len(others) / span_s,
        "after_the_seeds_confirmation": {
            "span_s": after_s,
            "candidates": len(after_seed),
            "an_hour": 3600 * len(after_seed) / after_s,
            "judging_share": sum(c.device_s for c in costs) / after_s,
            "timed_share": sum(c.timed_s for c in costs) / after_s,
        },
        "by_candidate": [brief(p) for p in judged],
        "duels": [{"outcome": d.outcome, "rounds": d.rounds, "device_s": d.cost.device_s} for d in duels],
        "best": None if best is None else summary(best),
        "highest_score": summary(max(judged, key=lambda p: p.evaluation.score or 0.0)),  # confirmed or not
    }


def brief(program: Program) -> dict[str, Any]:
    evaluation = program.evaluation
    assert evaluation is not None
    return {
        "number": program.number,
        "status": evaluation.status,
        "score": evaluation.score,
        "device_s": evaluation.cost.device_s,
        "build_s": evaluation.cost.build_s,
        "timed_s": evaluation.cost.timed_s,
        "stages_s": evaluation.cost.stages_s,
        "confirmation_s": program.confirmation.cost.device_s if program.confirmation else None,
    }


def summary(best: Program) -> dict[str, Any]:
    found: Evaluation | None = best.confirmation or best.evaluation
    assert found is not None
    timing = found.timing.model_dump(mode="json")
    return {
        "number": best.number,
        "confirmed": found.confirmed,
        "timing": timing,
        "workloads": {
            w.workload: {
                "split": w.split,
                "us": w.call_us.estimate if w.call_us else None,
                "strongest": w.strongest,
                "ratio": w.ratios[w.strongest].model_dump() if w.strongest in w.ratios else None,
                "roofline_share": w.floor_us / FLOOR_MARGIN / w.call_us.estimate if w.floor_us and w.call_us else None,
            }
            for w in found.workloads
        },
        "source": best.source,
    }


def apart(task: str, run: Path, count: int, folder: Path) -> dict[str, Any]:
    """Some of the run's candidates, each in a fresh process."""
    with RunView.open(run) as view:
        rows = [row["number"] for row in view.storage.table() if row["status"] == "passed"][:count]
        sources = [view.program(number).source for number in rows]
    seconds, seen = [], []
    for index, source in enumerate(sources):
        file = folder / f"candidate_{index}.py"
        file.write_text(source)
        started = time.monotonic()
        command = [sys.executable, "-c", APART, task, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        seconds.append(time.monotonic() - started)
        seen.append(json.loads(done.stdout) if done.returncode == 0 else done.stderr[-300:])
    return {
        "programs": rows,
        "seconds": seconds,
        "seen": seen,
        "an_hour": 3600 * len(seconds) / max(sum(seconds), 1e-9),
    }


def save(out: Path, record: dict[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")


def show(record: dict[str, Any]) -> None:
    keys = ("task", "candidates", "statuses", "span_s", "candidates_an_hour", "wall_s")
    print({k: record[k] for k in keys})
    print("after the seed's confirmation", record["after_the_seeds_confirmation"])
    for one in record["by_candidate"]:
        stages = {k: round(v, 2) for k, v in one["stages_s"].items()}
        took = f"build {one['build_s']:.1f}, confirmation {one['confirmation_s']}"
        print("  ", one["number"], one["status"], one["score"], took, stages)
    best = record["best"]
    if best:
        print("best", best["number"], best["confirmed"], best["timing"])
        for name, one in best["workloads"].items():
            if one["us"]:
                print("  ", name, {k: v for k, v in one.items() if k != "split"})
    print("apart", record["apart"]["seconds"], record["apart"]["an_hour"])


if __name__ == "__main__":
    main()
