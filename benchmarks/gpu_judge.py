"""The judge on a GPU: what it says of a task's programs, what that costs, and how it compares with ncu and do_bench.

    python benchmarks/gpu_judge.py TASK OUT.json [--commit HASH]

Needs an NVIDIA GPU, torch and Triton; ncu where there is one. Nothing about the device is changed.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluators.evaluation import Evaluation, Interval, Timed
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.shapes import axis_names
from evaluators.task import Language, Task
from evaluators.task_loading import find_task, load_task

TUNED = re.compile(r"^(NUM_WARPS = )\d+(.*# tune: )(.*)$", re.MULTILINE)
NCU_DEADLINE_S = 60
LAUNCHES = 12
PROGRAMS: tuple[tuple[str, str, Language], ...] = (
    ("triton seed, first of all", "seed.py", "triton"),
    ("triton seed", "seed.py", "triton"),
    ("cuda seed", "seed.cu", "cuda"),
    ("fails to build", "int x = ;", "cuda"),
    ("writes nothing", "empty", "cuda"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("out", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--launch", action="store_true", help="only launch the seed, for ncu to look at")
    arguments = parser.parse_args()
    task = load_task(find_task(arguments.task))
    if arguments.launch:
        launch(task)
        return
    record: dict[str, Any] = {"task": task.name, "date": datetime.now(UTC).isoformat(), "commit": arguments.commit}
    started = time.monotonic()
    with open_judge(task, sandbox="full", lanes=1) as (judge, environment):
        if not isinstance(judge, KernelJudge):
            sys.exit("no GPU on this machine")
        record["environment"] = environment.model_dump(mode="json")
        judge.calibrate()
        record["ready_s"] = time.monotonic() - started
        record["baselines_us"] = {n: dict(c.baseline_us) for n, c in judge.calibrations.items()}
        record["floor_us"] = {n: c.floor_us for n, c in judge.calibrations.items()}
        record["calls_a_round"] = {n: c.plan.calls for n, c in judge.calibrations.items()}
        save(arguments.out, record)
        programs(judge, task, record, arguments.out)
        save(arguments.out, record)
    record["outside"] = outside(task, arguments.out)
    save(arguments.out, record)
    show(record)


def programs(judge: KernelJudge, task: Task, record: dict[str, Any], out: Path) -> None:
    """Judge both seeds, programs that fail early, the seed against itself, and its tuned relatives; save each."""
    seed, other = (task.folder / "seed.py").read_text(), (task.folder / "seed.cu").read_text()
    made = record["programs"] = {}
    for name, source, language in PROGRAMS:
        text = {"seed.py": seed, "seed.cu": other, "empty": empty(task)}.get(source, source)
        made[name] = facts(judge.evaluate(text, language))
        save(out, record)
    duel = judge.duel((seed, "triton"), (seed, "triton"))
    record["duel_with_itself"] = {
        "outcome": duel.outcome,
        "ratio": interval(duel.ratio),
        "rounds": duel.rounds,
        "device_s": duel.cost.device_s,
    }
    started, tuned = time.monotonic(), record.setdefault("tuned", {})
    line = TUNED.search(seed)
    for warps in line[3].split(",") if line else ():
        evaluation = judge.evaluate(TUNED.sub(rf"\g<1>{warps.strip()}\g<2>\g<3>", seed), "triton")
        tuned[f"NUM_WARPS = {warps.strip()}"] = facts(evaluation)
        took = time.monotonic() - started
        record["throughput"] = {
            "candidates": len(tuned),
            "wall_s": took,
            "candidates_an_hour": 3600 * len(tuned) / took,
            "device_s_share": sum(t["device_s"] for t in tuned.values()) / took,
        }
        save(out, record)


def empty(task: Task) -> str:
    return f'#include <cstdint>\nextern "C" void {task.entry}() {{}}\n'


def facts(evaluation: Evaluation) -> dict[str, Any]:
    timing = evaluation.timing
    return {
        "status": evaluation.status,
        "message": evaluation.message,
        "speedup": interval(timing.speedup) if isinstance(timing, Timed) else None,
        "us": {w.workload: interval(w.call_us) for w in evaluation.workloads if w.call_us},
        "rounds": timing.rounds if isinstance(timing, Timed) else 0,
        "build_s": evaluation.cost.build_s,
        "device_s": evaluation.cost.device_s,
        "stages_s": evaluation.cost.stages_s,
        "measures": evaluation.measures,
    }


def interval(value: Interval | None) -> list[float] | None:
    return None if value is None else [value.low, value.estimate, value.high]


def launch(task: Task) -> None:
    """Launch the Triton seed on every search workload, each time on other memory."""
    import torch  # noqa: PLC0415

    entry = load_seed(task)
    for workload in task.search_workloads():
        for _ in range(LAUNCHES):
            entry(*arrays(task, workload.axes), *scalars(task, workload.axes))
        torch.cuda.synchronize()


def load_seed(task: Task) -> Any:
    spec = importlib.util.spec_from_file_location("seed", task.folder / "seed.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{task.folder}/seed.py is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, task.entry)


def scalars(task: Task, axes: Mapping[str, int]) -> list[int]:
    return [axes[name] for name in axis_names(task.args)]


def arrays(task: Task, axes: Mapping[str, int]) -> list[Any]:
    import torch  # noqa: PLC0415

    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16}
    return [
        torch.randn([d if isinstance(d, int) else axes[d] for d in a.shape], device="cuda").to(kinds[a.dtype])
        for a in task.args
    ]


def outside(task: Task, out: Path) -> dict[str, Any]:
    """What do_bench and ncu say of the seed, each in a process of its own."""
    found: dict[str, Any] = {"do_bench_us": do_bench(task)}
    ncu = shutil.which("ncu")
    if ncu:
        metric = ["--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--csv"]
        command = [ncu, *metric, "-k", f"regex:{task.entry}", sys.executable, __file__, task.name, str(out), "--launch"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=NCU_DEADLINE_S)
        found["ncu_us"] = ncu_times(task, done.stdout)
        found["ncu_says"] = "" if found["ncu_us"] else (done.stdout + done.stderr)[-500:]
    return found


def do_bench(task: Task) -> dict[str, float]:
    from triton.testing import do_bench as measure  # noqa: PLC0415

    entry, times = load_seed(task), {}
    for workload in task.search_workloads():
        inputs = arrays(task, workload.axes)
        call = lambda: entry(*inputs, *scalars(task, workload.axes))  # noqa: B023, E731
        times[workload.name] = 1e3 * measure(call, return_mode="median")
    return times


def ncu_times(task: Task, text: str) -> dict[str, float]:
    """Median kernel duration of each workload, in the order in which they were launched."""
    start = text.find('"ID"')
    rows = [r for r in csv.DictReader(io.StringIO(text[start:])) if r.get("Metric Value")] if start >= 0 else []
    units = {"ns": 1e-3, "us": 1.0, "usecond": 1.0, "nsecond": 1e-3, "ms": 1e3, "msecond": 1e3}
    values = [float(r["Metric Value"].replace(",", "")) * units[r["Metric Unit"]] for r in rows]
    groups = [values[i : i + LAUNCHES] for i in range(0, len(values), LAUNCHES)]
    return {w.name: sorted(g)[len(g) // 2] for w, g in zip(task.search_workloads(), groups, strict=False)}


def save(out: Path, record: dict[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")


def show(record: dict[str, Any]) -> None:
    print(f"{record['task']} on {record['environment']['device_class']}, ready in {record['ready_s']:.1f} s")
    print("floor", record["floor_us"], "\nbaselines", record["baselines_us"], "\noutside", record["outside"])
    for name, one in {**record["programs"], **record["tuned"]}.items():
        us = {k: round(v[1], 3) for k, v in one["us"].items()}
        speed = one["speedup"] and [round(v, 4) for v in one["speedup"]]
        costs = f"build {one['build_s']:.2f} s, device {one['device_s']:.2f} s"
        print(f"{name}: {one['status']} {speed} {us} rounds {one['rounds']}, {costs} {one['message']}")
        print("   ", {k: round(v, 2) for k, v in one["stages_s"].items()})
    print("with itself", record["duel_with_itself"], "\nthroughput", record["throughput"])


if __name__ == "__main__":
    main()
