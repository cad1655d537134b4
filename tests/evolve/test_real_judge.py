"""The search on the real judge, sandbox and all: one worker repeats itself, and kill -9 loses and leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from benchmarks.kill_nine import INSTANTS, Victim
from evaluators.client import JudgeSettings, ProcessJudge, start_judge
from evaluators.device_lock import DeviceLock
from evaluators.errors import JudgeError
from evaluators.task_loading import find_task, load_task
from evolve.loop import WeightedProposer, search
from evolve.proposers.scripted import Scripted
from evolve.proposers.tunables import find_tunables
from evolve.run import Run
from evolve.settings import Caps, RunSettings, SearchSettings
from evolve.types import Program, ProposeContext
from evolve.view import RunView

CIRCLES = find_task("circle_packing")


def another_value(context: ProposeContext) -> str:
    """The parent with one tunable set to another of its values."""
    tunables = find_tunables(context.parent.source, context.parent.language, ())
    name = str(context.rng.choice(sorted(tunables.values)))
    tunable = next(t for t in tunables if t.name == name)
    return tunables.substitute({name: str(context.rng.choice(tunable.choices))})


def lineage(folder: Path) -> list[tuple[object, ...]]:
    settings = RunSettings(
        search=SearchSettings(seed=7, lanes=1, queue=0, proposals=1, migration_every=4), caps=Caps(candidates=14)
    )

    async def factory() -> ProcessJudge:
        return await start_judge(JudgeSettings(CIRCLES))

    with Run.create(folder, load_task(CIRCLES), settings) as run:
        asyncio.run(search(run, factory, [WeightedProposer(Scripted(another_value))]))
        programs = [run.storage.program(number) for number in range(1, run.next_number)]
    return [
        (p.number, p.parents, p.inspirations, p.island, p.generation, p.source_hash, p.score, p.placement)
        for p in programs
    ]


def test_one_worker_with_a_seed_repeats_itself_number_by_number(tmp_path):
    first, second = lineage(tmp_path / "a"), lineage(tmp_path / "b")
    assert len(first) == 14
    assert len({row[6] for row in first}) > 3, "scores differ, so that there is something to repeat"
    assert first == second


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == pid:
                found |= {int(entry.name)} | descendants(int(entry.name))
    return found


def wait_until(condition, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def finished(folder: Path) -> int:
    try:
        with RunView.open(folder) as view:
            return view.progress().finished
    except Exception:
        return 0


def stored(view: RunView) -> list[Program]:
    return [view.program(number) for number in range(1, view.progress().programs + 1)]


@pytest.mark.parametrize("after", [2, 5])
def test_kill_nine_ends_every_process_and_resume_goes_on(tmp_path, after):
    folder = tmp_path / "run"
    command = [sys.executable, "-c", "from evolve.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "run", "circle_packing", "--dir", str(folder), "--display", "none", "--set", "search.lanes=2"],
        cwd=Path(__file__).parents[2],
    )
    try:
        assert wait_until(lambda: finished(folder) >= after, 60)
        below = descendants(process.pid)
        assert len(below) >= 3, "judge, zygote and its inner process"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), 5), "nobody is left"
    with RunView.open(folder) as view:
        before = {p.number: p for p in stored(view) if p.evaluation is not None}
    cap = max(before) + 4
    done = subprocess.run(
        [*command, "resume", str(folder), "--display", "none", "--set", f"caps.candidates={cap}"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    with RunView.open(folder) as view:
        after_resume = {p.number: p for p in stored(view)}
    assert set(after_resume) == set(range(1, cap + 1))
    assert all(p.evaluation is not None for p in after_resume.values())
    for number, program in before.items():
        assert after_resume[number].evaluation == program.evaluation, "what was judged is not judged again"


@pytest.mark.timeout(600)
def test_kill_nine_at_several_instants_loses_nothing_pays_nothing_twice_and_leaves_nothing(tmp_path):
    """While the judge starts, in a build, and in a confirmation or duel: see ``benchmarks/kill_nine.py``."""
    victim = Victim(tmp_path)
    for name, reached in INSTANTS.items():
        victim.kill(name, reached)
    victim.finish(1)
    assert set(victim.outcome.kills) == set(INSTANTS), "every instant came"
    late = [words for words in victim.outcome.troubles if "processes left after" in words]
    assert victim.outcome.troubles == late, "nothing but a busy machine's slowness"
    assert max(victim.outcome.gone_s) < 20  # a fifth of a second on a quiet machine


def evolve(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, from an empty folder."""
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-c", "from evolve.cli import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize("command", [("run", "q4_matvec_cpu"), ("eval", "q4_matvec_cpu", "seed.cpp")])
def test_a_missing_compiler_is_one_line_and_nothing_is_written(tmp_path, command):
    (tmp_path / "seed.cpp").write_text("int x;\n")
    done = evolve(*command, folder=tmp_path, PATH="/nonexistent", CXX="")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("evolve: no C++ compiler found: install g++")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["seed.cpp"]


def test_a_reference_that_disagrees_with_itself_is_one_line_and_nothing_is_written(tmp_path):
    folder = tmp_path / "double"
    shutil.copytree(Path(__file__).parents[1] / "data" / "double", folder)
    (folder / "tolerance.lock").unlink()
    reference = folder / "reference.py"
    moody = "\n\n_right, _calls = oracle, []\n\n\ndef oracle(inputs, rows=None):\n    _calls.append(1)\n"
    moody += "    found = _right(inputs, rows)\n    return {n: a + len(_calls) for n, a in found.items()}\n"
    reference.write_text(reference.read_text() + moody)
    before = sorted(tmp_path.rglob("*"))
    done = evolve("check", str(folder), folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"evolve: {reference}: ")
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before
    run = evolve("run", str(folder), folder=tmp_path)
    assert run.returncode == 2
    assert "no limits yet; run: evolve check" in run.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_on_the_real_judge_is_replayed_without_it(tmp_path):
    """Two lanes and the tuner, through the command line; the replay starts no judge, and needs no task."""
    caps = ["--set", "caps.candidates=14", "--set", "search.lanes=2", "--set", "search.migration_every=4"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}

    def evolve(*arguments: str) -> str:
        command = [sys.executable, "-c", "from evolve.cli import main; main()", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    evolve("run", "circle_packing", "--dir", "r", *caps)
    evolve("db", "dump", "r", "run.jsonl.gz")
    assert (tmp_path / "run.jsonl.gz").stat().st_size < 200_000
    shutil.rmtree(tmp_path / "r")
    said = json.loads(evolve("replay", "run.jsonl.gz", "--json"))
    assert (said["same"], said["programs"]) == (True, 14)


async def test_what_it_waits_for_another_judge_is_known_while_it_gets_ready_and_when_it_has_died(tmp_path, monkeypatch):
    """This process is the other judge. What is waited for is neither a judge's fault nor a program's cost."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = DeviceLock("cpu")
    task = Path(__file__).parents[1] / "data" / "double"
    judge = await start_judge(JudgeSettings(task))

    async def waits_after(so_far_s: float) -> None:
        async with asyncio.timeout(60):
            while judge.held_up_s(3600) <= so_far_s:
                await asyncio.sleep(0.02)

    async def used_in_vain_s() -> float:
        with pytest.raises(JudgeError):
            await judge.evaluate((task / "seed.cpp").read_text(), "cpp")
        return judge.device_s()

    try:
        with other.held():
            await waits_after(0.0)
        async with asyncio.timeout(60):
            await judge.ready()
        with other.held():
            question = asyncio.create_task(used_in_vain_s())
            await waits_after(judge.held_up_s(3600))
            os.kill(judge.pid, signal.SIGKILL)
            assert await question == 0.0
    finally:
        await judge.close()
