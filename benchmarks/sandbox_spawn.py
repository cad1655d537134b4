"""What it costs to fork a runner into its closed sandbox and to wait for its end.

    python benchmarks/sandbox_spawn.py [-n COUNT] [-p MODULES] [-o RESULT.json]

Prints spawns a second, one after another and from two threads, with all layers and without any; and the processor time
of one spawn (judge's side, zygote and child together), which is the figure to compare on a machine that is busy.
Most of it is page faults: after a fork parent and child share their pages, and each page that either of them changes
first has to be taken apart. So it also prints how many there are, and what one costs on this machine.
"""

from __future__ import annotations

import argparse
import mmap
import os
import resource
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.record import write_record
from evaluators.sandbox.report import LayerName
from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote

LIMITS = ChildLimits(memory_bytes=1 << 30, cpu_s=10, file_bytes=0, processes=0)
REQUEST = SpawnRequest(role="runner", entry="operator:is_", limits=LIMITS)
"""The cheapest entry there is: a function of two arguments that does nothing."""
SETTINGS = {"all layers": frozenset[LayerName](), "no layer": frozenset(LayerName)}


def spawn_many(zygote: Zygote, count: int, times: list[float]) -> None:
    for _ in range(count):
        start = time.perf_counter()
        with zygote.spawn(REQUEST) as child:
            times.append(time.perf_counter() - start)
            status = child.wait(10)
        if status is None or status.code != 0:
            raise SystemExit(f"a runner ended with {status}")


def measure(zygote: Zygote, lanes: int, count: int) -> dict[str, float]:
    times: list[float] = []
    threads = [threading.Thread(target=spawn_many, args=(zygote, count // lanes, times)) for _ in range(lanes)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    return {"lanes": lanes, "spawns_per_s": len(times) / seconds, "spawn_median_ms": 1e3 * median(times)}


@dataclass(frozen=True)
class Used:
    """What this process and all below it that have ended used."""

    processor_s: float
    faults: int

    @classmethod
    def now(cls) -> Used:
        """As the kernel counts it."""
        uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(sum(use.ru_utime + use.ru_stime for use in uses), sum(use.ru_minflt for use in uses))

    def __sub__(self, other: Used) -> Used:
        return Used(self.processor_s - other.processor_s, self.faults - other.faults)


def fault_us(pages: int = 4096) -> float:
    """What it costs here to change a page that a fork made shared: median of five children."""
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    places = range(0, len(memory), mmap.PAGESIZE)
    for place in places:
        memory[place] = 1
    seen = []
    for _ in range(5):
        reader, writer = os.pipe()
        if os.fork() == 0:
            start = time.process_time()
            for place in places:
                memory[place] = 2
            os.write(writer, f"{time.process_time() - start}".encode())
            os._exit(0)
        os.wait()
        seen.append(float(os.read(reader, 64)))
        os.close(reader)
        os.close(writer)
    return 1e6 * median(seen) / pages


def session(preload: tuple[str, ...], without: frozenset[LayerName], count: int) -> tuple[list[dict[str, float]], Used]:
    """The rates in one zygote, and what all of it used."""
    before = Used.now()
    with (
        tempfile.TemporaryDirectory() as scratch,
        Zygote(minimum="none", scratch=Path(scratch), preload=("operator", *preload), without=without) as zygote,
    ):
        rows = [measure(zygote, lanes, count) for lanes in (1, 2)] if count else []
    return rows, Used.now() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--count", type=int, default=400)
    parser.add_argument("-p", "--preload", default="numpy", help="comma-separated modules")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    preload = tuple(filter(None, arguments.preload.split(",")))
    cost_us = fault_us()
    figures: dict[str, object] = {"preload": preload, "load_before": os.getloadavg()[0], "fault_us": cost_us}
    print(f"to change a page that a fork made shared takes {cost_us:.1f} us here")
    for name, without in SETTINGS.items():
        _, idle = session(preload, without, 0)
        rows, total = session(preload, without, arguments.count)
        used, spawns = total - idle, 2 * arguments.count
        processor_ms, faults = 1e3 * used.processor_s / spawns, used.faults / spawns
        figures[name] = {"processor_ms_per_spawn": processor_ms, "faults_per_spawn": faults, "rates": rows}
        rates = ", ".join(f"{row['lanes']} at a time {row['spawns_per_s']:.0f}/s" for row in rows)
        print(f"{name:12} {rates}, {processor_ms:.1f} ms of processor time and {faults:.0f} faults each")
    if arguments.output:
        write_record(arguments.output, "sandbox_spawn", figures)


if __name__ == "__main__":
    main()
