"""Thousands of candidates in a row, a tenth of them hostile: does the judge stay what it was?

    python -m benchmarks.endurance [-n CANDIDATES] [-t TIMED] [-o RESULT.json]

Every candidate goes through a real judge: a process of its own, sandboxed builders and runners. First CANDIDATES of a
value-scored task, two at a time (they are cheap, so there can be many), then TIMED of a time-scored one. Nine of ten
are honest and differ from all others; every tenth is a cheat of the corpus. At twenty points in between everything is
counted that could leak: processes, threads, descriptors, files, shared memory, cgroups, and the resident memory of
judge and zygote. Every twentieth has the same mixture of programs, so that what it costs can be compared: the trend
of processor time a candidate, and that of the wall clock (which means something on an idle machine only), from the
second twentieth to the last, must lie within 5 % with its interval. Ends with code 1 where something grew, or where
the trend of processor time lies beyond that. ``-n 5000`` takes five minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import cycle
from math import inf
from pathlib import Path

from benchmarks.record import write_record
from benchmarks.trend import Trend, trend
from evaluators.build import KEPT_BUILDS
from evaluators.client import JudgeSettings, ProcessJudge, start_judge
from evaluators.task import Language
from tests.exploits.corpus import corpus
from tests.exploits.fooled import World
from tests.quick_judge import DATA

TASK = Path(__file__).with_name("endurance_task")
MARKS = 20
HOSTILE_EVERY = 10
COMPILED_EVERY = 41
"""Of the honest candidates, one in so many is C++ and goes through a builder; the others are Python."""
WARM = 2
"""Marks before which memory may grow: caches fill, allocators settle."""
MOST_CHANGE = 0.05
"""Of the cost of a candidate, from the first to the last."""
GROWTH_MIB = 8.0
"""What memory may grow by afterwards: an allocator's whim, not a leak of as many candidates."""

KEPT_FOLDER = "artifacts"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Program = tuple[str, Language]


@dataclass(frozen=True)
class Counts:
    """What there is at one point in time."""

    processes: int
    threads: int
    """Of judge and zygote."""
    descriptors: int
    files: int
    """Beside the builds that are kept."""
    kept_builds: int
    shared_memory: int
    """Names in ``/dev/shm`` and System V segments."""
    mapped_memory: int
    """Mappings of memory files in judge and zygote."""
    cgroups: int
    judge_mib: float
    zygote_mib: float
    cpu_s: float
    """Processor time of judge and zygote and of all their children that have ended."""


def honest(number: int, name: int) -> Program:
    """A right program that nobody has proposed before."""
    if number % COMPILED_EVERY == 0:
        text = (DATA / "double" / "seed.cpp").read_text()
        return f"{text}// {name}\n", "cpp"
    head = f"import numpy as np  # {name}\n\n\ndef double_it(x, out, N):\n"
    return f"{head}    np.multiply(np.sqrt(np.abs(x)), 2, out=out)\n", "python"


def mixture(world: World, mark: int, total: int) -> Iterator[tuple[bool, Program]]:
    """The programs of one part of the run, and whether each is hostile: alike in every part, but no text twice."""
    cheats = cycle([e for e in corpus() if e.task == "double" and not e.slow])
    for number in range(1, total + 1):
        if number % HOSTILE_EVERY == 0:
            cheat = next(cheats)
            yield True, (cheat.source(world.words()), cheat.language)
        else:
            yield False, honest(number, mark * total + number)


def count(judge_pid: int, scratch: Path) -> Counts:
    """Look at the judge, the zygote below it and the places where either could leave something."""
    family = descendants(judge_pid)
    zygotes = family[1:3]  # the one that holds the namespaces, and the server in them
    pids = [judge_pid, *zygotes]
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in pids)
    return Counts(
        processes=len(family),
        threads=sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids),
        descriptors=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        files=sum(len(files) for place, _, files in os.walk(scratch) if Path(place).name != KEPT_FOLDER),
        kept_builds=sum(len(files) for place, _, files in os.walk(scratch) if Path(place).name == KEPT_FOLDER),
        shared_memory=len(os.listdir("/dev/shm")) + len(Path("/proc/sysvipc/shm").read_text().splitlines()) - 1,
        mapped_memory=maps.count("memfd:"),
        cgroups=sum(groups_of(pid) for pid in zygotes),
        judge_mib=resident_mib(judge_pid),
        zygote_mib=sum(map(resident_mib, zygotes)),
        cpu_s=sum(map(cpu_seconds, pids)),
    )


def groups_of(zygote_pid: int) -> int:
    """Control groups that a zygote has made, those of its children included; others' come and go meanwhile."""
    name = f"kernel-evolve-{zygote_pid}-"
    groups = [Path(place) for place, _, _ in os.walk("/sys/fs/cgroup")]
    return sum(path.name.startswith(name) + path.parent.name.startswith(name) for path in groups)


def descendants(root: int) -> list[int]:
    """A process and all below it, parents first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(parents.get(pid, []))
    return found


def resident_mib(pid: int) -> float:
    """Resident memory that is a process's own."""
    rows = dict(row.split(":", 1) for row in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["RssAnon"].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """Of a process and of its children that it has waited for."""
    fields_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields_[11:15])) / TICKS_PER_S


@dataclass
class Course:
    """What one judge went through."""

    counts: list[Counts]
    seconds: list[float]
    """Of each part."""
    statuses: Counter[str]

    def growth(self) -> dict[str, float]:
        """By how much each count is larger at the end than when all was warm."""
        first, last = asdict(self.counts[WARM]), asdict(self.counts[-1])
        return {name: last[name] - first[name] for name in first}

    def leaks(self) -> list[str]:
        """The counts that grew beyond what they may."""
        room = {"judge_mib": GROWTH_MIB, "zygote_mib": GROWTH_MIB, "cpu_s": inf, "kept_builds": KEPT_BUILDS}
        return [name for name, more in self.growth().items() if more > room.get(name, 0)]

    def cpu_seconds(self) -> list[float]:
        """Processor time of each part: what else runs on the machine does not count."""
        return [after.cpu_s - before.cpu_s for before, after in itertools.pairwise(self.counts)]

    def trends(self) -> dict[str, Trend]:
        """How the cost of a candidate changes from the second part to the last; the very first warms up."""
        return {"cpu": trend(self.cpu_seconds()[1:]), "wall": trend(self.seconds[1:])}

    def record(self) -> dict[str, object]:
        """For the result's file."""
        series = {f.name: [round(getattr(c, f.name), 1) for c in self.counts] for f in fields(Counts)}
        return {
            "statuses": dict(sorted(self.statuses.items())),
            "seconds_by_part": [round(s, 2) for s in self.seconds],
            "cpu_s_by_part": [round(s, 2) for s in self.cpu_seconds()],
            "change": {name: f"{one}: {one.verdict(MOST_CHANGE)}" for name, one in self.trends().items()},
            "counts": series,
            "growth": {name: round(more, 1) for name, more in self.growth().items()},
        }


async def settled(judge_pid: int, scratch: Path) -> Counts:
    """The counts once what has just ended is gone: an exit takes a moment."""
    counts = count(judge_pid, scratch)
    for _ in range(20):
        await asyncio.sleep(0.05)
        before, counts = counts, count(judge_pid, scratch)
        if (before.processes, before.threads) == (counts.processes, counts.threads):
            break
    return counts


async def run(task: Path, total: int, lanes: int, scratch: Path) -> Course:
    """So many candidates through one judge."""
    judge: ProcessJudge = await start_judge(JudgeSettings(task, lanes=lanes))
    course = Course([], [], Counter())
    world = World(scratch.parent, "no secret", port=9)

    async def lane(programs: Iterator[tuple[bool, Program]]) -> None:
        for hostile, (source, language) in programs:
            status = (await judge.evaluate(source, language)).status.value
            course.statuses[f"{'hostile' if hostile else 'honest'}: {status}"] += 1

    try:
        await judge.ready()
        course.counts.append(await settled(judge.pid, scratch))
        for mark in range(MARKS):
            started, programs = time.monotonic(), mixture(world, mark, total // MARKS)
            await asyncio.gather(*(lane(programs) for _ in range(lanes)))
            course.seconds.append(time.monotonic() - started)
            course.counts.append(await settled(judge.pid, scratch))
            print(f"{course.seconds[-1]:7.1f} s  {course.counts[-1]}", flush=True)
    finally:
        await judge.close()
    return course


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--count", type=int, default=5000)
    parser.add_argument("-t", "--timed", type=int, default=60)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)
        by_value = asyncio.run(run(TASK, arguments.count, 2, scratch))
        timed = asyncio.run(run(DATA / "double", arguments.timed, 1, scratch))
    figures = {"by_value": by_value.record(), "timed": timed.record()}
    for name, course in (("by value", by_value), ("timed", timed)):
        print(name, course.record())
    if arguments.output:
        write_record(arguments.output, "endurance", figures)
    if leaks := [*by_value.leaks(), *timed.leaks()]:
        sys.exit(f"grew: {', '.join(leaks)}")
    if by_value.trends()["cpu"].verdict(MOST_CHANGE) == "beyond":
        sys.exit(f"a candidate's processor time changed by {by_value.trends()['cpu']}")


if __name__ == "__main__":
    main()
