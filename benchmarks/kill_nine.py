"""A search on the real judge, killed with SIGKILL again and again: is anything lost, done twice or left behind?

    python -m benchmarks.kill_nine [-k KILLS] [-s SEED] [-o RESULT.json]

The tuner searches a small time-scored task in C++, so that a candidate is built, evaluated, confirmed and compared in
duels. Each time the search's process alone is killed: in the middle of a build, while a program that was judged is
confirmed or compared, while the judge starts, or at a random moment. Then every process below it must be gone within a
second, and with it the judge's folder and control groups; what was stored must be there unchanged, and the run is
resumed. In the end no evaluation or confirmation may be booked twice, and nothing may be left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.endurance import descendants
from benchmarks.record import write_record
from evaluators.errors import EvaluatorsError
from evaluators.scratch import PREFIX
from evolve.errors import EvolveError
from evolve.types import ProgramState
from evolve.view import RunView
from tests.quick_judge import DATA

ROOT = Path(__file__).parents[1]
EVOLVE = [sys.executable, "-c", "from evolve.cli import main; main()"]
GONE_WITHIN_S = 1.0
PATIENCE_S = 300.0
"""For an instant to come: on a busy machine an evaluation may take half a minute."""
PROGRAM = """\
#include <cmath>
#include <cstdint>
constexpr int64_t STEP = 1;  // tune: 1, 2, 4, 8, 16, 32
constexpr int64_t AGAIN = 8;  // tune: 1, 2, 4, 8
extern "C" void double_it(const float* x, float* out, int64_t N) {
    for (int64_t again = 0; again < AGAIN; again++) {
        int64_t i = 0;
        for (; i + STEP <= N; i += STEP)
            for (int64_t j = i; j < i + STEP; j++) out[j] = 2.0f * std::sqrt(std::fabs(x[j]));
        for (; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
        asm volatile("" ::: "memory");
    }
}
"""
"""Doing it several times over is slow, and tuning finds that out: there are new bests to confirm and elites to beat."""


@dataclass(frozen=True)
class Stored:
    """What a run's database holds that may neither change nor come twice."""

    evaluations: dict[int, str]
    finished: frozenset[int]
    bookings: Counter[tuple[str, int | None]]
    """How often evaluations and confirmations of a program were booked, and how many duels and failures."""

    def lost(self, later: Stored) -> list[str]:
        """What is not there any more, or not as it was."""
        changed = [n for n, text in self.evaluations.items() if n in self.finished and later.evaluations.get(n) != text]
        undone = sorted(self.finished - later.finished)
        unbooked = [key for key, count in self.bookings.items() if later.bookings[key] < count]
        found = {"evaluations changed": changed, "unfinished again": undone, "unbooked": unbooked}
        return [f"{name}: {what}" for name, what in found.items() if what]

    def twice(self) -> list[str]:
        """What was paid for more than once."""
        once = ("evaluation", "confirmation")
        booked = self.bookings.items()
        return [f"{kind} of {number}: {count} times" for (kind, number), count in booked if kind in once and count > 1]


def stored(folder: Path) -> Stored | None:
    """What is stored by now; ``None`` before there is anything."""
    with suppress(EvolveError, EvaluatorsError), RunView.open(folder) as view:
        programs = list(view.storage.programs())
        return Stored(
            {p.number: p.evaluation.model_dump_json() for p in programs if p.evaluation is not None},
            frozenset(p.number for p in programs if p.state is ProgramState.FINISHED),
            Counter((entry.kind, entry.program) for entry in view.storage.ledger()),
        )
    return None


def building(folder: Path, below: list[int]) -> bool:
    """A compiler runs for a candidate: the judge is through with its own builds once there are programs."""
    found = stored(folder)
    return found is not None and bool(found.evaluations) and any(_name(pid) == "cc1plus" for pid in below)


def contested(folder: Path, below: list[int]) -> bool:
    """A program that was judged is being confirmed, or compared with an elite."""
    del below
    found = stored(folder)
    return found is not None and bool(set(found.evaluations) - found.finished - {1})


def starting(folder: Path, below: list[int]) -> bool:
    """The judge has begun to build and measure its baselines."""
    del folder
    return len(below) > 3


INSTANTS: dict[str, Callable[[Path, list[int]], bool]] = {
    "build": building,
    "contest": contested,
    "start": starting,
}


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


@dataclass
class Outcome:
    """What a series of kills showed."""

    kills: Counter[str] = field(default_factory=Counter)
    gone_s: list[float] = field(default_factory=list)
    """How long after each kill the last process below was gone."""
    troubles: list[str] = field(default_factory=list)


class Victim:
    """One run of a search that is killed and resumed. What it leaves in its temporary folder is its own."""

    def __init__(self, place: Path) -> None:
        self.folder, self._place, self.outcome = place / "run", place, Outcome()
        self._task, self._temporary = place / "task", place / "tmp"
        self._zygotes: set[int] = set()
        self._temporary.mkdir()
        shutil.copytree(DATA / "double", self._task)
        (self._task / "seed.cpp").write_text(PROGRAM)

    def kill(self, name: str, reached: Callable[[Path, list[int]], bool]) -> None:
        """Start or resume it, kill it when the instant has come, and look at what is left."""
        before = stored(self.folder)
        process = self._start()
        try:
            below, came = self._wait(process, reached)
        finally:
            process.kill()
            process.wait()
        killed = time.monotonic()
        while any(alive(pid) for pid in below) and time.monotonic() - killed < 10 * GONE_WITHIN_S:
            time.sleep(0.01)
        self._zygotes |= set(below)
        self.outcome.gone_s.append(round(time.monotonic() - killed, 3))
        self.outcome.kills[name if came else f"{name} (did not come)"] += 1
        if self.outcome.gone_s[-1] > GONE_WITHIN_S:
            self.outcome.troubles.append(f"{name}: processes left after {self.outcome.gone_s[-1]} s")
        self.outcome.troubles += [f"{name}: left behind: {path}" for path in self.remains()]
        now = stored(self.folder)
        if before is not None and now is not None:
            self.outcome.troubles += [f"{name}: {words}" for words in before.lost(now)]

    def finish(self, more: int) -> None:
        """Resume it until so many more programs are finished; nothing of the killed judges may be left then."""
        before = stored(self.folder)
        cap = (max(before.evaluations, default=1) if before is not None else 1) + more
        done = subprocess.run(
            self._command("--set", f"caps.candidates={cap}"), env=self._environment(), cwd=self._place, check=False,
            capture_output=True, text=True, timeout=10 * PATIENCE_S,
        )  # fmt: skip
        after = stored(self.folder)
        troubles = self.outcome.troubles
        if done.returncode != 0 or after is None:
            troubles.append(f"resume ended with {done.returncode}: {done.stderr[-500:]}")
            return
        if before is not None:
            troubles += before.lost(after)
        troubles += after.twice()
        if len(after.finished) != cap:
            troubles.append(f"{len(after.finished)} of {cap} programs finished")
        troubles += [f"left behind: {path}" for path in self.remains()]

    def remains(self) -> list[Path]:
        """Folders of judges that are gone, and control groups of the zygotes below those that were killed."""
        groups = [group for group in Path("/sys/fs/cgroup").rglob("kernel-evolve-*") if group.is_dir()]
        ours = [group for group in groups if int(group.name.split("-")[2]) in self._zygotes]
        return [*self._temporary.glob(f"{PREFIX}*"), *ours]

    def _wait(
        self, process: subprocess.Popen[bytes], reached: Callable[[Path, list[int]], bool]
    ) -> tuple[list[int], bool]:
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            below = descendants(process.pid)[1:]
            if reached(self.folder, below):
                return descendants(process.pid)[1:] + below, True
            time.sleep(0.005)
        return descendants(process.pid)[1:], False

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(), env=self._environment(), cwd=self._place,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _command(self, *more: str) -> list[str]:
        if self.folder.exists():
            return [*EVOLVE, "resume", str(self.folder), "--display", "none", *more]
        return [*EVOLVE, "run", str(self._task), "--dir", str(self.folder), "--display", "none", *more]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self._temporary)}


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


def after(seconds: float) -> Callable[[Path, list[int]], bool]:
    """A moment that nothing sets apart."""
    end = time.monotonic() + seconds
    return lambda folder, below: time.monotonic() > end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", "--kills", type=int, default=30)
    parser.add_argument("-s", "--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        victim = Victim(Path(folder))
        for _ in range(arguments.kills):
            name = chance.choice([*INSTANTS, "any"])
            victim.kill(name, INSTANTS.get(name) or after(chance.uniform(0.1, 20)))
            print(name, victim.outcome.gone_s[-1], victim.outcome.troubles, flush=True)
        victim.finish(3)
    outcome = victim.outcome
    print(outcome)
    if arguments.output:
        figures = {"kills": dict(outcome.kills), "gone_s": outcome.gone_s, "troubles": outcome.troubles}
        write_record(arguments.output, "kill_nine", figures)
    if outcome.troubles:
        sys.exit("\n".join(outcome.troubles))


if __name__ == "__main__":
    main()
