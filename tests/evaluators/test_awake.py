"""Cores are kept awake only for as long as somebody asks, by processes that outlive nobody."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from evaluators.awake import AwakeCores

CORE = min(os.sched_getaffinity(0))
DEADLINE_S = 20
MAKER = """
import sys, time
from evaluators.awake import AwakeCores
cores = AwakeCores([int(sys.argv[1])])
print(cores._spinners[0].pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def cores():
    kept = AwakeCores([CORE])
    yield kept
    kept.close()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(pid: int, states: str) -> str:
    """The state of a process, once it is one of these; the last one seen if it never is."""
    os.sched_yield()
    for _ in range(1_000_000):
        found = state(pid)
        if found in states:
            break
    return found


def test_a_core_is_kept_awake_while_somebody_asks_and_not_before_or_after(cores):
    pid = cores._spinners[0].pid
    assert until(pid, "T") == "T"
    with cores.awake():
        assert until(pid, "R") == "R"
        assert os.sched_getaffinity(pid) == {CORE}
        assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    assert until(pid, "T") == "T"


def test_an_error_meanwhile_lets_it_sleep_again(cores):
    with suppress(ZeroDivisionError), cores.awake():
        _ = 1 / 0
    assert until(cores._spinners[0].pid, "T") == "T"


def test_they_die_with_a_judge_that_is_killed():
    judge = subprocess.Popen([sys.executable, "-c", MAKER, str(CORE)], stdout=subprocess.PIPE, text=True)
    try:
        spinner = os.pidfd_open(int(judge.stdout.readline()))
    finally:
        judge.send_signal(signal.SIGKILL)
        judge.wait(DEADLINE_S)
        judge.stdout.close()
    try:
        assert select.select([spinner], [], [], DEADLINE_S)[0], "a spinner outlived its judge"
    finally:
        os.close(spinner)
