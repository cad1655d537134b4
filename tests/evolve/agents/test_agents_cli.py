"""``evolve ask``, ``tell`` and ``steer`` as a person types them, and a search that is killed in between."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from evolve.testing import fake_source
from evolve.view import RunView
from tests.evolve.conftest import CommandLine

ROOT = Path(__file__).resolve().parents[3]

SEARCHES = """
import asyncio, sys
from evolve.cli import main
from evolve.cli.judging import Services
from evolve.testing import FakeJudge

async def hang(method, source):
    if "HANG" in source:
        print("HANGING", flush=True)
        await asyncio.Event().wait()

async def start(settings):
    return FakeJudge(before=hang)

main(sys.argv[1:], obj=Services(start))
"""


@pytest.fixture
def run(evolve: CommandLine, toy: Path) -> Path:
    """A run of which the seed is judged, in the folder where commands are typed."""
    (toy / "seed.py").write_text(fake_source(1.0))
    done = evolve("run", toy, "--dir", "night", "--proposers", "tuner")
    assert done.exit_code == 0, done.output
    return evolve.folder / "night"


def asked(evolve: CommandLine, *arguments: object) -> dict[str, object]:
    done = evolve("ask", "night", "--json", *arguments)
    assert done.exit_code == 0, done.output
    first: dict[str, object] = json.loads(done.output)["asks"][0]
    return first


def test_ask_lays_out_a_file_and_says_how_to_hand_it_in(evolve: CommandLine, run: Path) -> None:
    done = evolve("ask", "night", "--agent", "ann", "--lease", "60", "--count", "2")
    assert done.exit_code == 0
    assert "lease     1 for ann" in done.output
    assert "evolve tell night 2 night/agents/lease-2/program.py" in done.output
    assert "def f(out, N): ..." in done.output, "the calling convention"
    assert "The best confirmed program is 1: score 1; the best published is 2 (a paper)." in done.output
    work = run / "agents" / "lease-1"
    assert (work / "program.py").read_text() == fake_source(1.0)
    assert "# Program 1, the one to work on" in (work / "briefing.md").read_text()


def test_show_names_the_leases_that_are_open(evolve: CommandLine, run: Path) -> None:
    assert "leases  " not in evolve("show", "night").output
    asked(evolve, "--agent", "ann", "--count", "2")
    evolve("steer", "night", "release", 1)
    shown = evolve("show", "night").output
    assert "leases        2 of ann, on program 1, until 20" in shown
    assert [lease["id"] for lease in json.loads(evolve("show", "night", "--json").output)["leases"]] == [2]


def test_tell_prints_the_number_and_with_wait_the_verdict(evolve: CommandLine, run: Path) -> None:
    lease = asked(evolve, "--agent", "ann")
    (evolve.folder / "mine.py").write_text(fake_source(3.0))
    done = evolve("tell", "night", 1, "mine.py", "--note", "three\nis more")
    assert (done.exit_code, done.output) == (0, "program 2; its verdict: evolve show night 2\n")
    done = evolve("tell", "night", 1, "mine.py", "--wait")
    assert done.exit_code == 0
    assert "agent, agent (ann)" in done.output
    assert "three is more" in done.output
    assert "passed, confirmed" in done.output
    assert "It is the new best." in done.output
    assert lease["file"] == "night/agents/lease-1/program.py"


def test_a_failed_program_is_exit_code_3_in_the_judges_words(evolve: CommandLine, run: Path) -> None:
    file = Path(str(asked(evolve)["file"]))
    file.write_text("# fake: status=wrong_values\n")
    done = evolve("tell", "night", 1, "--wait")
    assert done.exit_code == 3
    assert "wrong_values at rounds: the source says wrong_values" in done.output
    assert "The best confirmed program is 1" in done.output


def test_mistakes_are_one_line_and_exit_code_2(evolve: CommandLine, run: Path) -> None:
    asked(evolve)
    (evolve.folder / "binary.py").write_bytes(b"\xff\xfe")
    (evolve.folder / "huge.py").write_bytes(b"x" * ((1 << 20) + 1))
    (evolve.folder / "nul.py").write_bytes(b"x = 1\0\n")
    for arguments, said in [
        (("tell", "night", 5, "binary.py"), "no lease 5; get one with: evolve ask night"),
        (("tell", "night", 1, "binary.py"), "binary.py: not UTF-8 text"),
        (("tell", "night", 1, "huge.py"), "huge.py: is larger than a program may be"),
        (("tell", "night", 1, "absent.py"), "absent.py: cannot be read"),
        (("tell", "day", 1, "binary.py"), "day: no such run"),
        (("ask", "night", "--parent", "9"), "no program 9"),
        (("ask", "night", "--lease", "0"), "must be above 0"),
        (("ask", "night", "--lease", "1e300"), "at most 31622400"),
        (("ask", "night", "--parent", 10**20), "no program 1"),
        (("show", "night", 10**20), "no program 1"),
        (("show", "--", "night", -(10**20)), "no program -1"),
        (("ask", "night", "--parent", -(10**20)), "no program -1"),
        (("ask", "night", "--lease", "nan"), "must be above 0"),
        (("tell", "--", "night", -(10**20), "nul.py"), "no lease -1"),
        (("tell", "night", 10**20, "nul.py"), "no lease 1"),
        (("tell", "night", 1, "nul.py"), "nul.py: not a text"),
        (("ask", "night", "--agent", " "), "a name has 1 to 100 characters"),
        (("steer", "night", "cap", "candidates=x"), "'x' is not a number"),
        (("steer", "night", "release", "7"), "no open lease 7; open: 1 (agent)"),
        (("run", "night", "--proposers", "oracle"), "'oracle': one of"),
    ]:
        done = evolve(*arguments)
        assert done.exit_code == 2, arguments
        assert said in done.output, done.output
        assert done.output.count("\n") == 1


def test_orders_are_listed_with_their_times(evolve: CommandLine, run: Path) -> None:
    evolve("steer", "night", "hint", "try tiling")
    evolve("steer", "night", "ban", "tables", "--pattern", "TABLE")
    evolve("steer", "night", "withdraw", "1")
    done = evolve("steer", "night", "list")
    assert re.search(r"1  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  hint +try tiling +- +-", done.output)
    assert re.search(r"ban +tables +TABLE +in force", done.output)
    data = json.loads(evolve("steer", "night", "list", "--json").output)
    assert data["hints"] == []
    assert data["bans"] == [{"text": "tables", "pattern": "TABLE"}]


def test_the_list_says_of_every_order_whether_it_is_in_force(evolve: CommandLine, toy: Path) -> None:
    evolve("run", toy, "--dir", "night", "--set", "caps.candidates=2")
    given = [
        ("pause", 0),
        ("resume", 0),
        ("pause", 1),
        ("weight", "tuner=0.5"),
        ("weight", "tuner=2"),
        ("weight", "agent=0.25"),
        ("cap", "candidates=9"),
        ("cap", "seconds=3000"),
    ]
    for order in given:
        assert evolve("steer", "night", *order).exit_code == 0, order
    assert in_force(evolve) == {2, 3, 5, 6, 7, 8}
    evolve("steer", "night", "resume", 1)
    assert in_force(evolve) == {2, 9, 5, 6, 7, 8}
    evolve("steer", "night", "cap", "seconds=none")
    assert in_force(evolve) == {2, 9, 5, 6, 7, 10}
    assert re.search(r"cap +seconds is none now +seconds=none +in force", evolve("steer", "night", "list").output)
    evolve("resume", "night", "--set", "caps.candidates=4", "--set", "proposers.agent=0")
    assert in_force(evolve) == {2, 9, 5, 10}, "what resume --set says wins"


def in_force(evolve: CommandLine) -> set[int]:
    data = json.loads(evolve("steer", "night", "list", "--json").output)
    return {order["id"] for order in data["orders"] if order["in_force"]}


def test_a_raised_cap_is_what_resume_goes_on_with(evolve: CommandLine, toy: Path) -> None:
    evolve("run", toy, "--dir", "night", "--set", "caps.candidates=2")
    assert evolve("steer", "night", "cap", "candidates=5").output == "order 1: cap: candidates is 5 now\n"
    done = evolve("resume", "night")
    assert "5 tried" in done.output
    assert "candidates = 5" in (evolve.folder / "night" / "config.toml").read_text()


def read_until(lines: IO[str], text: str) -> None:
    for line in lines:
        if text in line:
            return
    pytest.fail(f"ended without {text}")


def test_kill_nine_between_tell_and_verdict(evolve: CommandLine, toy: Path) -> None:
    """One answer is in the judge's hands when the search dies, one comes when nobody is there: each is judged once."""
    (toy / "seed.py").write_text(fake_source(1.0))
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCHES, "run", str(toy), "--dir", "night", "--proposers", "agent"],
        cwd=evolve.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        read_until(process.stdout, "new best: program 1")
        (evolve.folder / "a.py").write_text(fake_source(2.0, text="HANG"))
        (evolve.folder / "b.py").write_text(fake_source(3.0))
        asked(evolve, "--count", "2")
        assert evolve("tell", "night", 1, "a.py").output.startswith("program 2;")
        read_until(process.stdout, "HANGING")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert evolve("tell", "night", 2, "b.py").output.startswith("program 3;")
    done = evolve("resume", "night", "--set", "caps.candidates=3")
    assert done.exit_code == 0, done.output
    with RunView.open(evolve.folder / "night") as view:
        assert [(p.number, p.score, p.model) for p in view.storage.programs()] == [
            (1, 1.0, None),
            (2, 2.0, "agent"),
            (3, 3.0, "agent"),
        ]
        assert view.record.best == 3
    assert len(evolve.judge.evaluated) == 2
    assert evolve("tell", "night", 1, "a.py", "--wait").exit_code == 0, "told again it is the same program"
