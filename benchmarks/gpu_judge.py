"""The judge on a GPU: what it says of a task's programs, what that costs, and how it compares with ncu and do_bench.

    python benchmarks/gpu_judge.py TASK OUT.json [--commit HASH]

Needs an NVIDIA GPU, torch and Triton; ncu where there is one. Nothing about the device is changed.
"""

from __future__ import annotations

import argparse
import cProfile
import csv
import importlib.util
import io
import itertools
import json
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluators.confidence import ratio_interval
from evaluators.device import find_cpu
from evaluators.duel import measure_block
from evaluators.evaluation import Evaluation, Interval, Timed
from evaluators.failure import CandidateFailure
from evaluators.gpu_judge import builder_cores
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.rounds import PairedTimes
from evaluators.shapes import axis_names
from evaluators.task import Language, Task
from evaluators.task_loading import find_task, load_task
from evaluators.trail import Trail

OUTSIDE_DEADLINE_S = 60
LAUNCHES, REPLAYS = 12, 15
LEASE_S, FIRST_BLOCK, NEXT_BLOCK = 2.0, 10, 10
LENGTH_ROUNDS = 12
PROFILED = 5
FILL_BYTES = 24 << 30
"""What the judge's filling and looking moves between two rounds, roughly: a device that was busy with it has another
clock than one that waited, and than one that replays a graph again and again."""
STARTING = """
import ctypes
from evaluators.cuda.driver import Driver
while True:
    driver = Driver.load(0)
    memory = driver.allocate(64 << 20)
    driver.call("cuMemsetD8_v2", ctypes.c_ulonglong(memory), ctypes.c_ubyte(0), ctypes.c_size_t(64 << 20))
    driver.synchronize()
    driver.free(memory)
    driver.call("cuCtxDestroy_v2", driver.context)
"""
"""What warming the next runner does to the device: a context, some memory, a first piece of work, again and again."""
PROGRAMS: tuple[tuple[str, str, Language], ...] = (
    ("triton seed, first of all", "seed.py", "triton"),
    ("triton seed", "seed.py", "triton"),
    ("cuda seed", "seed.cu", "cuda"),
    ("fails to build", "int x = ;", "cuda"),
    ("writes nothing", "empty", "cuda"),
)
SLOW = ("triton seed, first of all", "cuda seed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("out", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--launch", action="store_true", help="only launch the seed, for ncu to look at")
    parser.add_argument("--spacing", help="only replay the seed in graphs of so many calls (JSON, by workload)")
    parser.add_argument("--brief", action="store_true", help="no duel, no confirmation, no second look at the seed")
    parser.add_argument("--profile", action="store_true", help="also say where the judge's own time goes")
    arguments = parser.parse_args()
    task = load_task(find_task(arguments.task))
    if arguments.launch:
        launch(task)
        return
    if arguments.spacing:
        print(json.dumps(spacing(task, json.loads(arguments.spacing))))
        return
    record: dict[str, Any] = {"task": task.name, "date": datetime.now(UTC).isoformat(), "commit": arguments.commit}
    started = time.monotonic()
    with open_judge(task, sandbox="full", lanes=1) as (judge, environment):
        if not isinstance(judge, KernelJudge):
            sys.exit("no GPU on this machine")
        record["environment"] = environment.model_dump(mode="json")
        judge.calibrate()
        record["ready_s"] = time.monotonic() - started
        record["baselines_since"] = judge.bench.cache.since
        record["baselines_us"] = {n: dict(c.baseline_us) for n, c in judge.calibrations.items()}
        record["floor_us"] = {n: c.floor_us for n, c in judge.calibrations.items()}
        record["empty_us"] = {n: dict(c.empty_us) for n, c in judge.calibrations.items()}
        record["calls_a_round"] = {n: c.plan.calls for n, c in judge.calibrations.items()}
        save(arguments.out, record)
        if arguments.profile:
            profile(judge, task, arguments.out.with_suffix(".profile.txt"))
        programs(judge, task, record, arguments.out, brief=arguments.brief)
        record["equal_programs"] = equal_programs(judge, task)
        save(arguments.out, record)
        record["by_length"] = by_length(judge, task)
        record["beside_starts"] = beside_starts(judge, task)
        save(arguments.out, record)
    record["outside"] = outside(task, arguments.out, record["calls_a_round"])
    save(arguments.out, record)
    show(record)


def programs(judge: KernelJudge, task: Task, record: dict[str, Any], out: Path, *, brief: bool) -> None:
    """Judge both seeds and programs that fail early, a duel, a confirmation; save each."""
    seed, other = (task.folder / "seed.py").read_text(), (task.folder / "seed.cu").read_text()
    made = record["programs"] = {}
    for name, source, language in PROGRAMS:
        if brief and name in SLOW:
            continue
        text = {"seed.py": seed, "seed.cu": other, "empty": empty(task)}.get(source, source)
        made[name] = facts(judge.evaluate(text, language))
        save(out, record)
    if brief:
        return
    made["triton seed, confirmed"] = facts(judge.confirm(seed, "triton"))
    duel = judge.duel((seed, "triton"), (seed, "triton"))
    record["duel_with_itself"] = {
        "outcome": duel.outcome,
        "ratio": interval(duel.ratio),
        "rounds": duel.rounds,
        "device_s": duel.cost.device_s,
        "timed_s": duel.cost.timed_s,
    }
    save(out, record)


def equal_programs(judge: KernelJudge, task: Task) -> dict[str, Any]:
    """The seed beside itself for ``LEASE_S`` a workload: how far single ratios stray, how wide intervals are then."""
    seed: tuple[str, Language] = ((task.folder / "seed.py").read_text(), "triton")
    found: dict[str, Any] = {}
    with judge.rivals(Trail(), seed, seed) as start, start() as pair:
        for name, calibration in judge.calibrations.items():
            times, begun = PairedTimes(), time.monotonic()
            measure_block(judge.bench, judge.arena, calibration, pair, FIRST_BLOCK, times)
            first_s = time.monotonic() - begun
            while (spent := time.monotonic() - begun) < LEASE_S:
                measure_block(judge.bench, judge.arena, calibration, pair, NEXT_BLOCK, times)
            ratios = times.log_ratios()
            found[name] = {
                "log_ratios": ratios,
                "rounds": len(ratios),
                "lease_s": spent,
                "first_10_rounds_s": first_s,
                "timed_s": times.timed_s,
                "spread": statistics.pstdev(ratios),
                "median": statistics.median(ratios),
                "half_width_99": half_width(ratios, 0.01),
                "half_width_95": half_width(ratios, 0.05),
            }
    return found


def by_length(judge: KernelJudge, task: Task) -> dict[str, Any]:
    """Rounds of K calls and of half as many: what one more call takes, and what a round takes without any."""
    program = judge.bench.builds.build(task, (task.folder / "seed.py").read_text(), "triton", ())
    found: dict[str, Any] = {}
    for name, calibration in judge.calibrations.items():
        whole = calibration.plan.layout.sequences[0]
        orders = whole, whole[: len(whole) // 2]
        times: dict[int, list[float]] = {len(order): [] for order in orders}
        session = judge.arena.open(program)
        try:
            session.prepare(replace(calibration.plan.layout, sequences=orders), task.limits.prepare_s)
            for _ in range(LENGTH_ROUNDS):
                for order in orders:
                    judge.arena.fill(session, calibration.content, list(order))
                    times[len(order)].append(session.round(list(order), task.limits.call_s).total_ns / 1e3)
        finally:
            session.close()
        (most, longer), (least, shorter) = ((n, statistics.median(t[2:])) for n, t in times.items())
        call_us = (longer - shorter) / (most - least)
        found[name] = {
            "calls": [most, least],
            "round_us": [longer, shorter],
            "one_more_call_us": call_us,
            "round_without_calls_us": longer - most * call_us,
            "empty_round_us": calibration.empty_us["triton"] * calibration.plan.calls,
        }
    return found


def beside_starts(judge: KernelJudge, task: Task) -> dict[str, Any]:
    """The seed beside itself, with and without a process that begins to use the device meanwhile on other cores."""
    seed: tuple[str, Language] = ((task.folder / "seed.py").read_text(), "triton")
    found: dict[str, Any] = {}
    cores = builder_cores(find_cpu())
    with judge.rivals(Trail(), seed, seed) as start, start() as pair:
        for name, calibration in judge.calibrations.items():
            series = {"alone": PairedTimes(), "beside": PairedTimes()}
            found[name] = {}
            try:
                for word in ("alone", "beside", "beside", "alone"):
                    with starting(cores) if word == "beside" else nullcontext():
                        measure_block(judge.bench, judge.arena, calibration, pair, FIRST_BLOCK // 2, series[word])
            except CandidateFailure as failure:  # what the others do is taken for the program's doing
                found[name]["convicted"] = failure.message
            for word, times in series.items():
                if times.ours:
                    found[name][word] = {
                        "call_us": statistics.median(times.ours),
                        "call_us_spread": statistics.pstdev(times.ours),
                        "log_ratio_spread": statistics.pstdev(times.log_ratios()),
                    }
    return found


@contextmanager
def starting(cores: frozenset[int]) -> Iterator[None]:
    """Another process makes one context on the device after another, on these cores."""
    process = subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.DEVNULL)
    os.sched_setaffinity(process.pid, cores)
    try:
        time.sleep(1.0)  # until it is under way
        yield
        if process.poll() is not None:
            raise SystemExit(f"the process that was to start contexts ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


def half_width(log_ratios: list[float], alpha: float) -> float | None:
    found = ratio_interval(log_ratios, alpha)
    return None if found is None else (found.high - found.low) / 2


def profile(judge: KernelJudge, task: Task, out: Path) -> None:
    """Where the judge's own time goes while it judges the seed once more."""
    seed = (task.folder / "seed.py").read_text()
    judge.evaluate(seed, "triton")
    profiler = cProfile.Profile()
    profiler.runcall(judge.evaluate, seed, "triton")
    text = io.StringIO()
    statistic = pstats.Stats(profiler, stream=text)
    statistic.sort_stats("cumulative").print_stats(60)
    statistic.sort_stats("tottime").print_stats(30)
    out.write_text(text.getvalue())


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
        "timed_s": evaluation.cost.timed_s,
        "stages_s": evaluation.cost.stages_s,
        "measures": evaluation.measures,
    }


def interval(value: Interval | None) -> list[float] | None:
    return None if value is None else [value.low, value.estimate, value.high]


def launch(task: Task) -> None:
    """Launch the Triton seed on every search workload, each time on other memory."""
    import torch  # noqa: PLC0415

    entry = load_entry(task, task.folder / "seed.py")
    for workload in task.search_workloads():
        for _ in range(LAUNCHES):
            entry(*arrays(task, workload.axes), *scalars(task, workload.axes))
        torch.cuda.synchronize()


def load_entry(task: Task, file: Path) -> Any:
    """The entry of a Triton program."""
    spec = importlib.util.spec_from_file_location("program", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is no Python file")
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


def spacing(task: Task, calls: Mapping[str, int]) -> dict[str, Any]:
    """Microseconds from one kernel's start to the next one's in a graph of so many calls, each on other memory.

    Seen by a profiler in a replay that follows a stretch of filling, as the judge's rounds do, and in one of several in
    a row; beside it events around whole replays, both ways.
    """
    import torch  # noqa: PLC0415

    entry, found = load_entry(task, task.folder / "seed.py"), {}
    for workload in task.search_workloads():
        slots = [arrays(task, workload.axes) for _ in range(calls[workload.name])]
        entry(*slots[0], *scalars(task, workload.axes))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for slot in slots:
                entry(*slot, *scalars(task, workload.axes))
        found[workload.name] = {
            "in_a_row": replayed(task, graph, len(slots), pause=lambda: None),
            "after_filling": replayed(task, graph, len(slots), pause=lambda slots=slots: fill(slots)),
        }
        del slots, graph
        torch.cuda.empty_cache()
    return found


def fill(slots: list[list[Any]]) -> None:
    """Write all inputs again, as often as makes ``FILL_BYTES``."""
    import torch  # noqa: PLC0415

    moved = 0
    while moved < FILL_BYTES:
        for *inputs, _ in slots:
            for one in inputs:
                one.mul_(1.0)
                moved += 2 * one.nbytes
    torch.cuda.synchronize()


def replayed(task: Task, graph: Any, calls: int, pause: Callable[[], None]) -> dict[str, Any]:
    """A graph's replays with ``pause`` before each."""
    import torch  # noqa: PLC0415
    from torch.profiler import ProfilerActivity  # noqa: PLC0415

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    whole = []
    for _ in range(REPLAYS):
        pause()
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        whole.append(1e3 * start.elapsed_time(end) / calls)
    means, spans = [], []
    for _ in range(PROFILED):
        with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as seen:
            pause()
            graph.replay()
            torch.cuda.synchronize()
        spans = sorted((e.time_range.start, e.time_range.end) for e in seen.events() if task.entry in e.name)
        means.append((spans[-1][0] - spans[0][0]) / (len(spans) - 1))
    gaps = [b[0] - a[0] for a, b in itertools.pairwise(spans)]
    return {
        "kernels": len(spans),
        "spacing_us": statistics.median(means),
        "spacings_us": means,
        "median_spacing_us": statistics.median(gaps),
        "duration_us": statistics.median(b - a for a, b in spans) if spans else None,
        "graph_over_calls_us": statistics.median(whole),
    }


def outside(task: Task, out: Path, calls: Mapping[str, int]) -> dict[str, Any]:
    """What do_bench, a profiler and ncu say of the seed, each in a process of its own."""
    found: dict[str, Any] = {"do_bench_us": do_bench(task)}
    command = [sys.executable, __file__, task.name, str(out), "--spacing", json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=OUTSIDE_DEADLINE_S)
    found["graph"] = json.loads(done.stdout) if done.returncode == 0 else done.stderr[-500:]
    ncu = shutil.which("ncu")
    if ncu:
        metric = ["--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--csv"]
        command = [ncu, *metric, "-k", f"regex:{task.entry}", sys.executable, __file__, task.name, str(out), "--launch"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=OUTSIDE_DEADLINE_S)
        found["ncu_us"] = ncu_times(task, done.stdout)
        found["ncu_says"] = "" if found["ncu_us"] else (done.stdout + done.stderr)[-500:]
    return found


def do_bench(task: Task) -> dict[str, float]:
    from triton.testing import do_bench as measure  # noqa: PLC0415

    entry, times = load_entry(task, task.folder / "seed.py"), {}
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
    for name, one in record["programs"].items():
        us = {k: round(v[1], 3) for k, v in one["us"].items()}
        speed = one["speedup"] and [round(v, 4) for v in one["speedup"]]
        costs = f"build {one['build_s']:.2f} s, device {one['device_s']:.2f} s, timed {one['timed_s']:.2f} s"
        print(f"{name}: {one['status']} {speed} {us} rounds {one['rounds']}, {costs} {one['message']}")
        print("   ", {k: round(v, 2) for k, v in one["stages_s"].items()})
    print("with itself", record.get("duel_with_itself"))
    print("by length", record["by_length"], "\nbeside starts", record["beside_starts"])
    for name, one in record["equal_programs"].items():
        print("equal", name, {k: v for k, v in one.items() if k != "log_ratios"} if isinstance(one, dict) else one)


if __name__ == "__main__":
    main()
