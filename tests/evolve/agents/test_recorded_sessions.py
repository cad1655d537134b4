"""Sessions in which somebody outside wrote programs for ``q4_matvec_cpu``, recorded with ``evolve db dump``."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from evaluators.evaluation import Status, Timed
from evolve.database.dump import load_dump

SESSIONS = sorted((Path(__file__).parents[2] / "data" / "sessions").glob("*.jsonl.gz"))


def test_there_are_two_ways_in_and_a_session_of_each():
    assert {path.name.split(".")[0] for path in SESSIONS} == {"q4_ask_tell", "q4_mcp"}


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.split(".")[0])
def test_a_session_replays_to_the_same_lineage(evolve, path):
    result = evolve("replay", str(path), "--as-recorded", "tuner", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["difference"] is None


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.split(".")[0])
def test_what_an_agent_wrote_is_on_record_as_an_agents_and_judged(path):
    with closing(load_dump(path)) as storage:
        programs = list(storage.programs())
        best = storage.run().best
    written = [program for program in programs if program.proposer == "agent"]
    assert written
    for program in written:
        assert program.model == "author"
        assert program.note
        assert program.evaluation is not None
    assert all(program.proposer in {"agent", "tuner", "task"} or program.number == 1 for program in programs)
    (winner,) = (program for program in programs if program.number == best)
    assert winner.confirmed
    assert winner.confirmation is not None
    assert winner.confirmation.status is Status.PASSED
    assert isinstance(winner.confirmation.timing, Timed)
    line = [winner]
    while line[-1].parents:
        line.append(next(p for p in programs if p.number == line[-1].parents[0]))
    assert line[-1].number == 1
    assert any(program in written for program in line), "the best descends from what an agent wrote"
