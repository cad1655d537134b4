"""Spawns a second: fork a runner into the closed sandbox and wait for its end, serially and from several threads."""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import threading
import time
from pathlib import Path

from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote

REQUEST = SpawnRequest(
    role="runner",
    entry="gc:collect_nothing",
    limits=ChildLimits(memory_bytes=1 << 30, cpu_s=10, file_bytes=0, processes=0),
)


def spawn_many(zygote: Zygote, request: SpawnRequest, count: int, times: list[float]) -> None:
    for _ in range(count):
        start = time.perf_counter()
        with zygote.spawn(request) as child:
            times.append(time.perf_counter() - start)
            status = child.wait(10)
            if status is None or status.signal is not None:
                raise SystemExit(f"a runner ended with {status}")


def measure(zygote: Zygote, request: SpawnRequest, lanes: int, count: int) -> dict[str, float]:
    times: list[float] = []
    threads = [threading.Thread(target=spawn_many, args=(zygote, request, count // lanes, times)) for _ in range(lanes)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    return {
        "lanes": lanes,
        "spawns": len(times),
        "per_second": round(len(times) / seconds, 1),
        "median_spawn_ms": round(sorted(times)[len(times) // 2] * 1e3, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--preload", default="numpy")
    options = parser.parse_args()
    request = SpawnRequest(role="runner", entry="os:getpid", limits=REQUEST.limits)
    with (
        tempfile.TemporaryDirectory() as scratch,
        Zygote(minimum="none", scratch=Path(scratch), preload=("os", *options.preload.split(","))) as zygote,
    ):
        spawn_many(zygote, request, 10, [])
        rows = [measure(zygote, request, lanes, options.count) for lanes in (1, 2)]
    print(json.dumps({"machine": platform.platform(), "sandbox": zygote.layers.level, "results": rows}, indent=2))


if __name__ == "__main__":
    main()
