"""Ctrl-C and SIGTERM: the run ends cleanly, says how to go on, and goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import asyncio, sys
from evolve.cli import main
from evolve.cli.judging import Services
from evolve.testing import FakeJudge

judge = FakeJudge()

async def hang_at_the_fourth(method, source):
    if method == "evaluate" and len(judge.evaluated) == 3:
        print("HANGING", flush=True)
        await asyncio.Event().wait()

async def start(settings):
    return judge

judge.before = hang_at_the_fourth if "--hang" in sys.argv else None
if "--never-ready" in sys.argv:
    async def never():
        print("HANGING", flush=True)
        await asyncio.Event().wait()
    judge.ready = never
main([a for a in sys.argv[1:] if a not in ("--hang", "--never-ready")], obj=Services(start))
"""


def start(folder, *arguments):
    """A process of its own, in a session of its own, as a shell would start one."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def read_until(process, text):
    """Wait for a line of output."""
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"ended without {text}: {process.stderr.read()}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_cleanly_and_it_can_be_resumed(tmp_path, toy, number, code):
    process = start(tmp_path, "run", toy, "--dir", "r", "--set", "caps.candidates=8", "--hang")
    read_until(process, "HANGING")
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    assert process.returncode == code, error
    assert "go on with: evolve resume r" in out.lower()
    assert "best program" in out
    assert error == ""
    again = start(tmp_path, "resume", "r")
    out, error = again.communicate(timeout=60)
    assert again.returncode == 0, error
    assert "8 tried" in out


def test_a_signal_before_the_run_begins_leaves_nothing_behind(tmp_path, toy):
    here = tmp_path / "here"
    here.mkdir()
    process = start(here, "run", toy, "--never-ready")
    read_until(process, "HANGING")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error == "evolve: stopped before anything was written\n"
    assert list(here.iterdir()) == []


def test_a_signal_before_a_run_goes_on_says_that_it_is_as_it_was(tmp_path, toy):
    whole = start(tmp_path, "run", toy, "--dir", "r", "--set", "caps.candidates=2")
    assert whole.wait(timeout=60) == 0
    before = (tmp_path / "r" / "run.db").read_bytes()
    process = start(tmp_path, "resume", "r", "--set", "caps.candidates=3", "--never-ready")
    read_until(process, "HANGING")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error == ("evolve: stopped before the search went on; the run is as it was. Go on with: evolve resume r\n")
    assert (tmp_path / "r" / "run.db").read_bytes() == before
