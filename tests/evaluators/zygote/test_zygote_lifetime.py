"""Whatever ends the judge ends its zygote, and everything the zygote forked."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import evaluators
from evaluators.sandbox import cgroups
from evaluators.sandbox.report import LayerName
from evaluators.zygote.client import Zygote
from tests.evaluators.sandbox_support import PATIENCE_S, PRELOAD, request, run, zygotes_of_this_process

JUDGE = """
import json, os, sys
from pathlib import Path
from evaluators.sandbox.report import LayerName
from evaluators.zygote.client import Zygote
from tests.evaluators.sandbox_support import PRELOAD, request

def below(pid):
    children = []
    for task in os.listdir(f"/proc/{pid}/task"):
        children += map(int, open(f"/proc/{pid}/task/{task}/children").read().split())
    return children + [p for child in children for p in below(child)]

hopping = '''
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execv("/usr/bin/sleep", ["sleep", "1000"])
    os._exit(0)
os.wait()
print("started")
time.sleep(1000)
'''
zygote = Zygote(minimum="none", scratch=Path(sys.argv[1]), preload=PRELOAD)
if not zygote.layers.active(LayerName.PID_NAMESPACE):
    print("null", flush=True)
    sys.exit()
children = [zygote.spawn(request("while True: pass")), zygote.spawn(request(hopping, "builder"))]
children[0].stop(10)
assert os.read(children[1].log, 100) == b"started\\n"
print(json.dumps(below(os.getpid())), flush=True)
sys.stdin.read()
if sys.argv[2] == "close":
    zygote.close()
else:
    os._exit(0)
"""


def start_judge(scratch: Path, end: str) -> tuple[subprocess.Popen[str], list[int], list[int]]:
    """A judge with a stopped runner and a builder whose grandchild has left its session; pids and pidfds below it."""
    judge = subprocess.Popen(
        [sys.executable, "-c", JUDGE, str(scratch), end],
        cwd=Path(evaluators.__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert judge.stdout is not None
    below = json.loads(judge.stdout.readline())
    if below is None:
        pytest.skip("no pid namespaces on this host")
    assert len(below) >= 5  # zygote, its init, runner, builder, grandchild
    return judge, below, [os.pidfd_open(pid) for pid in below]


def all_ended(pidfds: list[int]) -> bool:
    ended = []
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        ended.append(bool(poll.poll(PATIENCE_S * 1000)))
        os.close(pidfd)
    return all(ended)


def test_a_killed_judge_takes_everything_with_it(tmp_path: Path) -> None:
    judge, _, pidfds = start_judge(tmp_path, "never")
    judge.send_signal(signal.SIGKILL)
    judge.communicate()
    assert all_ended(pidfds)


@pytest.mark.parametrize("end", ["close", "exit"])
def test_a_judge_that_ends_takes_everything_with_it(tmp_path: Path, end: str) -> None:
    judge, _, pidfds = start_judge(tmp_path, end)
    judge.communicate("")
    assert judge.returncode == 0
    assert all_ended(pidfds)


def groups_of(zygotes: set[int]) -> set[Path]:
    """The control groups that belong to these zygotes, by their process numbers."""
    hierarchies = cgroups.find_hierarchies(
        ("memory", "pids"), Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    )
    found = {group for hierarchy in hierarchies for group in hierarchy.base.glob("kernel-evolve-*")}
    return {group for group in found if int(group.name.split("-")[2]) in zygotes}


def test_control_groups_are_removed(tmp_path: Path) -> None:
    others = zygotes_of_this_process()
    with Zygote(minimum="none", scratch=tmp_path, preload=PRELOAD) as zygote:
        if not zygote.layers.active(LayerName.MEMORY_CGROUP):
            pytest.skip("no memory cgroup on this host")
        for _ in range(5):
            run(zygote, "pass")
        mine = groups_of(zygotes_of_this_process() - others)
        assert mine
        assert all(len(list(group.glob("*/"))) <= 2 for group in mine)
        with zygote.spawn(request("while True: pass")):
            pass
    assert not any(group.exists() for group in mine)


def test_control_groups_of_a_killed_judge_are_removed_by_the_next(tmp_path: Path) -> None:
    judge, pids, pidfds = start_judge(tmp_path, "never")
    left = groups_of(set(pids))
    judge.send_signal(signal.SIGKILL)
    judge.communicate()
    assert all_ended(pidfds)
    with Zygote(minimum="none", scratch=tmp_path, preload=PRELOAD):
        assert not any(group.exists() for group in left)


def test_a_zygote_outlives_the_thread_that_made_it(tmp_path: Path) -> None:
    """The parent-death signal is about the thread that started a process, not about its process."""
    made: list[Zygote] = []
    maker = threading.Thread(target=lambda: made.append(Zygote(minimum="none", scratch=tmp_path, preload=PRELOAD)))
    maker.start()
    maker.join()
    with made[0] as zygote:
        assert run(zygote, "print('alive')").last == "alive"


def test_closing_twice_is_fine_and_ends_the_children(tmp_path: Path) -> None:
    zygote = Zygote(minimum="none", scratch=tmp_path, preload=PRELOAD)
    child = zygote.spawn(request("while True: pass"))
    zygote.close()
    zygote.close()
    assert all_ended([os.dup(child.pidfd)])
    child.close()
    child.close()
