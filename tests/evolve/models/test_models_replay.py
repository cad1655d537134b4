"""Runs with language models run again without one: stored answers are read anew, and differences are noticed."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest

from evolve.database.steps import StepKind
from evolve.edits import dialogue
from evolve.edits.outcome import Edited
from evolve.testing_llm.model_server import Manners
from evolve.testing_llm.replies import Fault, Reply
from evolve.view import RunView
from tests.evolve.models.world import KEY, answer, configured, look, serving


def tunable(number):
    """A structure with a value to be tuned."""
    gain = 1 + number / 100
    choices = ", ".join(f"{gain + step / 10:.2f}" for step in range(5))
    code = f"GAIN = {gain:.2f}  # tune: {choices}\n# fake: score=GAIN\ndef f(out):\n    out[:] = {number}\n"
    return Reply(f"Tunable.\n\n```python\n{code}```\n")


def mixed(asked):
    """Good programs, structures to be tuned, known ones, refusals, broken-off and unusable answers, and a dead call."""
    number = asked.number
    odd = {
        1: tunable(number),
        2: Reply("I am sorry, I cannot help with that.", finish="refusal"),
        3: Reply(answer(1, 1.2)),
        4: Reply(answer(number, 1.1)[:24], finish="length"),
        5: Reply("<<<<<<< SEARCH\nnothing of the kind\n=======\nx\n>>>>>>> REPLACE\n"),
        6: Reply(fault=Fault.NO_SUCH_MODEL) if number == 14 else tunable(number),
    }
    return odd.get(number % 8, Reply(answer(number, 1.0 + number / 50)))


@pytest.fixture
def recorded(evolve, toy, tmp_path):
    """A run that asked models, was stopped by a cap, and went on; its server is gone."""
    models = '[[llm.models]]\nname = "local/m1"\n[[llm.models]]\nname = "local/m2"\n'
    with serving(mixed, Manners(key=KEY, piece_s=0.002)) as server:
        file = configured(
            tmp_path / "c.toml",
            server,
            models=models,
            caps={"candidates": 12},
            search={"proposals": 5, "queue": 3, "islands": 2, "tune_inside": 2},
            proposers={"tuner": 0.3},
        )
        assert evolve("run", toy, "--config", file, "--dir", "r").exit_code == 0
        assert evolve("resume", "r", "--set", "caps.candidates=24").exit_code == 0
    return evolve.folder / "r"


def test_to_the_same_lineage_without_a_key_or_a_server(evolve, recorded, monkeypatch):
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    asked = len(evolve.judge.evaluated)
    result = evolve("replay", "r", "--dir", "again")
    assert result.exit_code == 0, result.output
    assert "the same lineage: 24 programs" in result.output
    assert len(evolve.judge.evaluated) == asked
    with look(evolve.folder) as old, RunView.open(evolve.folder / "again") as new:
        assert list(new.storage.programs()) == list(old.storage.programs())
        ends = [[(d.number, e.outcome) for d, e in view.storage.endings()] for view in (old, new)]
        assert ends[0] == ends[1]
        spent = [Counter((s.model, s.operator) for s in view.storage.model_spending()) for view in (old, new)]
        assert spent[0] >= spent[1], "what was answered is on record again"
        kinds = Counter(step.kind for step in old.storage.steps())
    outcomes = {outcome for _, outcome in ends[0]}
    assert {"known", "refusal"} <= outcomes, "the scenario covers what it claims to cover"
    assert kinds[StepKind.PASS] >= 3
    assert evolve("db", "dump", "r", "run.jsonl.gz").exit_code == 0
    assert (evolve.folder / "run.jsonl.gz").stat().st_size < 100_000
    assert evolve("replay", "run.jsonl.gz").exit_code == 0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE texts SET text = replace(text, 'out[:] = ', 'out[:] = 1 + ') WHERE hash = "
        "(SELECT completion_hash FROM model_calls WHERE status = 'answered' AND program = {number} LIMIT 1)",
        "UPDATE model_calls SET program = 900 WHERE program = {number}",
    ],
    ids=["another answer", "no answer"],
)
def test_answers_that_are_not_the_recorded_ones_are_noticed(evolve, recorded, change):
    with look(evolve.folder) as view:
        number = next(p.number for p in view.storage.programs() if p.proposer == "llm" and p.duplicate_of is None)
    with closing(sqlite3.connect(recorded / "run.db")) as connection, connection:
        assert connection.execute(change.format(number=number)).rowcount
    result = evolve("replay", "r", "--json")
    assert result.exit_code == 3, result.output
    assert json.loads(result.stdout)["difference"].startswith(f"program {number}: ")


def test_other_edits_are_noticed(evolve, recorded, monkeypatch):
    """The answers are read anew: a reader that reads them differently comes to other programs."""
    original = dialogue.read_answer

    def other(said, context):
        outcome = original(said, context)
        return replace(outcome, source=outcome.source + "# more\n") if isinstance(outcome, Edited) else outcome

    monkeypatch.setattr(dialogue, "read_answer", other)
    result = evolve("replay", "r")
    assert result.exit_code == 3
    assert "source_hash" in result.output
