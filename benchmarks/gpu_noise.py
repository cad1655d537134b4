"""How far single rounds on a GPU stray, quiet and beside builds, and what of it is waiting for a core.

    python -m benchmarks.gpu_noise TASK OUT.json [--rounds 40] [--builds 0 4 8] [--before] [--commit HASH]

The Triton seed beside itself, so many pairs of rounds of each workload, while so many programs are built at once all
the time. Around each round the kernel's account is read of how long the runner's threads, and the judge's, had waited
for a core. ``--before`` adds, quiet and beside the most builds: judge and runner on whatever cores they are woken on,
and that with a judge whose linear algebra uses all cores. Needs an NVIDIA GPU; nothing about the device is changed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu_judge import half_width
from evaluators.blas import LIBRARIES
from evaluators.cuda import session as sessions
from evaluators.cuda.session import CudaSession
from evaluators.duel import measure_block
from evaluators.exchange import Asked, Exchange
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.rounds import PairedTimes
from evaluators.task_loading import find_task, load_task
from evaluators.trail import Trail

LONG = 1.15
"""A round that takes so many times the median is a long one."""
WAITED_NS = 1_000_000
BUILDS_FIRST_S = 2.0
VARIANTS = ("as it is", "any core", "any core, all threads")


@dataclass
class Log:
    """What is known of each round, while ``on``."""

    on: bool = False
    rounds: list[tuple[int, int]] = field(default_factory=list)
    """Nanoseconds between *go* and reply, and those that somebody had waited for a core."""

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Read the kernel's account around every round."""
        ask, play = Exchange.ask, CudaSession.round
        playing: list[CudaSession] = []

        def counted_ask(exchange: Exchange, *words: Any) -> Asked:
            before = playing[-1].child.waited_ns() + own_waited_ns()
            asked = ask(exchange, *words)
            if self.on:
                waited = playing[-1].child.waited_ns() + own_waited_ns() - before
                self.rounds.append((asked.total_ns, waited))
            return asked

        def noted_round(session: CudaSession, *words: Any) -> Any:
            playing[:] = [session]
            return play(session, *words)

        Exchange.ask, CudaSession.round = counted_ask, noted_round  # type: ignore[method-assign]
        try:
            yield
        finally:
            Exchange.ask, CudaSession.round = ask, play  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--builds", type=int, nargs="+", default=[0, 4, 8])
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    task, log = load_task(find_task(arguments.task)), Log()
    conditions = [(VARIANTS[0], count) for count in arguments.builds]
    if arguments.before:
        conditions += [(v, c) for v in VARIANTS[1:] for c in sorted({min(arguments.builds), max(arguments.builds)})]
    record: dict[str, Any] = {"task": task.name, "date": datetime.now(UTC).isoformat(), "commit": arguments.commit}
    with log.listening(), open_judge(task, sandbox="full", lanes=1) as (judge, environment):
        if not isinstance(judge, KernelJudge):
            sys.exit("no GPU on this machine")
        judge.calibrate()
        record["environment"] = environment.model_dump(mode="json")
        record["conditions"] = []
        for variant, count in conditions:
            with varied(variant), building(judge, (task.folder / "seed.py").read_text(), count) as seconds:
                found = {"variant": variant, "builds": count, "workloads": measured(judge, log, arguments.rounds)}
            found["build_s"] = statistics.median(seconds) if seconds else None
            record["conditions"].append(found)
            show(found)
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(record, indent=1) + "\n")


@contextlib.contextmanager
def varied(variant: str) -> Iterator[None]:
    """The judge as it is, or without what keeps its rounds steady."""
    kept = sessions.on_one_core
    with contextlib.ExitStack() as stack:
        if variant != VARIANTS[0]:
            sessions.on_one_core = lambda process, core: contextlib.nullcontext()  # type: ignore[assignment]
            stack.callback(setattr, sessions, "on_one_core", kept)
        if variant == VARIANTS[2]:
            stack.enter_context(LIBRARIES.limit(limits=len(os.sched_getaffinity(0))))
        yield


@contextlib.contextmanager
def building(judge: KernelJudge, source: str, count: int) -> Iterator[list[float]]:
    """Have so many programs built at a time, all the while; yields what each took."""
    seconds: list[float] = []
    over, numbers = threading.Event(), itertools.count()

    def build() -> None:
        while not over.is_set():
            started = time.monotonic()
            judge.bench.builds.build(judge.bench.task, f"# {next(numbers)} {started}\n{source}", "triton", ())
            seconds.append(time.monotonic() - started)

    threads = [threading.Thread(target=build) for _ in range(count)]
    for thread in threads:
        thread.start()
    time.sleep(BUILDS_FIRST_S if count else 0)
    try:
        yield seconds
    finally:
        over.set()
        for thread in threads:
            thread.join()


def measured(judge: KernelJudge, log: Log, rounds: int) -> dict[str, Any]:
    """The seed beside itself on each workload."""
    seed = (judge.bench.task.folder / "seed.py").read_text(), "triton"
    found: dict[str, Any] = {}
    with judge.rivals(Trail(), seed, seed) as start, start() as pair:  # type: ignore[arg-type]
        for name, calibration in judge.calibrations.items():
            times, begun = PairedTimes(), time.monotonic()
            log.on, log.rounds = True, []
            measure_block(judge.bench, judge.arena, calibration, pair, rounds, times)
            log.on = False
            ratios, typical = times.log_ratios(), statistics.median(ns for ns, _ in log.rounds)
            long = [waited for ns, waited in log.rounds if ns > LONG * typical]
            strays = sorted(map(abs, ratios))
            found[name] = {
                "calls": calibration.plan.calls,
                "pairs": len(ratios),
                "lease_s": time.monotonic() - begun,
                "timed_s": times.timed_s,
                "round_us": typical / 1e3,
                "stray_median": statistics.median(strays),
                "stray_90": strays[int(0.9 * len(strays))],
                "stray_most": strays[-1],
                "half_width_95": half_width(ratios, 0.05),
                "long_rounds": len(long),
                "of_them_waited": sum(waited >= WAITED_NS for waited in long),
                "rounds": len(log.rounds),
                "log_ratios": ratios,
            }
    return found


def own_waited_ns() -> int:
    """How long the calling thread was ready to run and had no core."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1])


def show(found: dict[str, Any]) -> None:
    took = f", a build {found['build_s']:.2f} s" if found["build_s"] else ""
    print(f"{found['variant']}, {found['builds']} builds{took}", flush=True)
    for name, one in found["workloads"].items():
        strays = " ".join(f"{one[key]:.4f}" for key in ("stray_median", "stray_90", "stray_most"))
        print(
            f"   {name:<20}{one['pairs']} pairs in {one['lease_s']:.2f} s, {one['timed_s']:.2f} timed; "
            f"strays {strays}; 95 % +-{one['half_width_95']:.4f}; long {one['long_rounds']} of {one['rounds']}, "
            f"waited {one['of_them_waited']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
