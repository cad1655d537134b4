"""``evolve prompt --operator profile-guided``: what is asked of programs with a profile alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from evolve.testing import FakeJudge
from evolve.testing_llm.replies import Asked, Reply
from tests.evolve.conftest import CommandLine
from tests.evolve.models.world import ROOT, configured, serving

DOUBLE = ROOT / "tests" / "data" / "double"
"""A task that is scored by time."""


def better(asked: Asked) -> Reply:
    verdict = f"// # fake: score=1.5{asked.number}"
    code = f'extern "C" void double_it(const float* x, float* out, long N) {{ out[0] = {asked.number}; }}'
    return Reply(f"Another.\n\n```cpp\n{verdict}\n{code}\n```\n")


@pytest.fixture(autouse=True)
def _profiles(evolve: CommandLine) -> None:
    evolve.judge = FakeJudge(timed=True, profiles=True)


def search(evolve: CommandLine, tmp_path: Path, *runs: tuple[int, bool], task: Path = DOUBLE) -> Path:
    """A run and what resumes it: so many candidates, and whether profiles are made."""
    with serving(better) as server:
        file = configured(tmp_path / "c.toml", server, search={"proposals": 1, "tune_inside": 0}, llm={"port": 0})
        command: tuple[object, ...] = ("run", task, "--dir", "r", "--config", file)
        for candidates, profiles in runs:
            wanted = f"search.profiles={str(profiles).lower()}"
            said = evolve(*command, "-s", f"caps.candidates={candidates}", "-s", wanted)
            assert said.exit_code == 0, said.output
            command = ("resume", "r")
    return file


def prompt(evolve: CommandLine, *arguments: object) -> Result:
    return evolve("prompt", "r", "--operator", "profile-guided", *arguments)


def refusal(evolve: CommandLine, *arguments: object) -> str:
    said = prompt(evolve, *arguments)
    assert said.exit_code == 2, said.output
    assert said.output.count("\n") == 1
    return said.output


def test_where_no_parent_has_one_it_says_so_and_how_to_get_some(evolve: CommandLine, tmp_path: Path) -> None:
    search(evolve, tmp_path, (1, False))
    said = refusal(evolve)
    assert "no parent has a profile to be guided by" in said
    assert "evolve resume r --set search.profiles=true" in said


def test_a_parent_is_chosen_that_has_one(evolve: CommandLine, tmp_path: Path) -> None:
    search(evolve, tmp_path, (1, True), (2, False))
    shown = prompt(evolve, "--json")
    assert shown.exit_code == 0, shown.output
    data = json.loads(shown.stdout)
    assert data["parent"] == 1, "program 2 is better, and has none"
    assert "limited by bandwidth" in data["messages"][0]["text"]
    assert "program 2 has no profile to be guided by; leave out --parent" in refusal(evolve, "--parent", 2)


def test_of_a_task_that_is_scored_by_value_no_program_has_one(evolve: CommandLine, toy: Path, tmp_path: Path) -> None:
    search(evolve, tmp_path, (1, True), task=toy)
    assert "scored by value have no profile" in refusal(evolve)


def test_a_banned_parent_is_not_what_would_be_sent_next(evolve: CommandLine, tmp_path: Path) -> None:
    search(evolve, tmp_path, (2, False))
    evolve("steer", "r", "ban", "the second", "--pattern", "score=1[.]5")
    shown = [evolve("prompt", "r", "--json", "-s", f"search.seed={seed}").stdout for seed in range(8)]
    assert {json.loads(text)["parent"] for text in shown} == {1}
