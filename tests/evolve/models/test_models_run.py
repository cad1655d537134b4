"""Whole runs that ask models: from the command line, against a fake judge and a server that speaks the real formats."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections import Counter
from itertools import count

import pytest

from evaluators.task_loading import load_task
from evolve.budget import Budget
from evolve.config import load_config
from evolve.database.model_records import CallStatus
from evolve.edits.dialogue import converse
from evolve.llm.bandit import GainPerCost
from evolve.llm.ensemble import make_policy
from evolve.model_books import RunGate
from evolve.models import Models
from evolve.testing_llm.model_server import Manners
from evolve.testing_llm.replies import Fault, Reply
from tests.evolve.models.world import KEY, answer, configured, improving, look, owed, serving


@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
def test_models_improve_on_the_seed_and_the_books_equal_the_servers(evolve, toy, tmp_path, wire):
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, wire, caps={"candidates": 6})
        result = evolve("run", toy, "--config", file, "--dir", "r", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["score"] > data["seed_score"]
    assert data["tried"] == 6
    total = data["models"]["total"]
    assert (total["requests"], total["answers"], total["failures"], total["open"]) == (5, 5, 0, 0)
    assert total["tokens_in"] == sum(b.input_tokens for b in server.billed)
    assert total["tokens_out"] == sum(b.output_tokens for b in server.billed)
    assert total["dollars"] == pytest.approx(owed(server))
    assert total["dollars_per_improvement"] == pytest.approx(owed(server) / total["improved"])
    assert data["spent"]["charge"]["dollars"] == pytest.approx(owed(server))
    assert set(data["models"]["by_model"]) == {"local/m1"}
    with look(evolve.folder) as view:
        best = view.best()
        assert (best.proposer, best.model, best.note) == ("llm", "local/m1", "Another value.")
        assert best.parents


def test_the_tuner_and_models_mix_by_their_weights(evolve, toy, tmp_path):
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 14}, proposers={"tuner": 1})
        assert evolve("run", toy, "--config", file, "--dir", "r").exit_code == 0
    with look(evolve.folder) as view:
        by = Counter(p.proposer for p in view.storage.programs())
    assert by["tuner"] >= 2
    assert by["llm"] >= 2
    assert by["llm"] == len(server.asked)


def test_an_answer_is_stored_before_its_program_and_with_all_that_was_asked(evolve, toy, tmp_path):
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 2})
        evolve("run", toy, "--config", file, "--dir", "r")
    with look(evolve.folder) as view:
        (call,) = view.storage.model_calls()
    query = "SELECT ended_at, programs.created_at FROM model_calls JOIN programs ON program = number"
    with closing_rows(evolve.folder / "r" / "run.db", query) as rows:
        assert all(ended <= stored for ended, stored in rows)
        assert len(rows) == 1
    sent = server.asked[0].body["messages"]
    assert call.request.system == sent[0]["content"]
    assert [m["text"] for m in json.loads(call.request.messages)] == [sent[1]["content"]]
    assert call.request.program == 2
    assert call.reply.completion == answer(1, 1.001)
    assert call.reply.dollars <= call.request.worst_dollars


MANY = 40


def test_proposals_in_flight_are_capped_by_the_setting_and_not_by_the_islands(evolve, toy, tmp_path):
    """Scenario: the parallelism is capped by the number of islands; the GPU idles while models are asked."""
    with serving(improving, Manners(key=KEY, piece_s=0.25)) as server:
        file = configured(
            tmp_path / "c.toml",
            server,
            caps={"candidates": MANY + 1},
            search={"proposals": MANY, "islands": 2, "queue": MANY},
            llm__providers__local={"concurrency": MANY},
        )
        result = evolve("run", toy, "--config", file, "--dir", "r")
        assert result.exit_code == 0, result.output
    with closing_rows(evolve.folder / "r" / "run.db", "SELECT created_at, ended_at FROM model_calls") as rows:
        most = max(sum(a <= begin < b for a, b in rows) for begin, _ in rows)
    assert most == MANY


def test_the_judge_goes_on_while_models_are_asked(evolve, toy, tmp_path):
    """Scenario: the GPU idles while models are asked. The first answer waits until three of the tuner's are judged."""
    judged = threading.Event()

    async def watch(method, source):
        if len(evolve.judge.evaluated) > 3:
            judged.set()

    def script(asked):
        return improving(asked) if judged.wait(30) else Reply(fault=Fault.NO_SUCH_MODEL)

    evolve.judge.before = watch
    with serving(script) as server:
        tables = {"search": {"proposals": 4}, "proposers": {"tuner": 1, "llm": 0.3}}
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 12}, **tables)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    with look(evolve.folder) as view:
        assert Counter(p.proposer for p in view.storage.programs())["llm"] == len(server.asked) > 0


def test_models_propose_eight_at_a_time_where_nothing_is_said(evolve, toy, tmp_path):
    with serving(improving, Manners(key=KEY, piece_s=0.2)) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 9}, search={"queue": 8})
        evolve("run", toy, "--config", file, "--dir", "r")
    with closing_rows(evolve.folder / "r" / "run.db", "SELECT created_at, ended_at FROM model_calls") as rows:
        assert max(sum(a <= begin < b for a, b in rows) for begin, _ in rows) == 8


class closing_rows:  # noqa: N801 - reads like a function
    """Rows of a query on a run's database."""

    def __init__(self, file, query):
        self._connection = sqlite3.connect(file)
        self._query = query

    def __enter__(self):
        return self._connection.execute(self._query).fetchall()

    def __exit__(self, *_):
        self._connection.close()


def test_what_equals_a_known_program_is_not_judged_and_said(evolve, toy, tmp_path):
    def script(asked):
        code = "def f(out):\n    # fake: score=1.5\n    value = 7\n    out[:] = value\n"
        renamed = code.replace("value", f"name{asked.number}").replace("# fake", "# a remark\n    # fake")
        return Reply(f"```python\n{renamed}```" if asked.number < 5 else answer(asked.number, 1.6))

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 3}, search={"proposals": 1})
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    assert "proposal 3: known: equals program 2 up to layout, comments and local names" in result.output
    assert "became no program: known 3" in result.output
    assert len(evolve.judge.evaluated) == 3
    with look(evolve.folder) as view:
        assert sum(s.dollars for s in view.storage.model_spending()) == pytest.approx(owed(server))


def test_evolve_prompt_shows_exactly_what_is_sent_next_and_changes_nothing(evolve, toy, tmp_path):
    one_worker = {"proposals": 1, "queue": 0, "seed": 4}
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 5}, search=one_worker)
        evolve("run", toy, "--config", file, "--dir", "r")
        before = (evolve.folder / "r" / "run.db").read_bytes()
        asked = len(server.asked)
        shown = evolve("prompt", "r", "--set", "caps.candidates=6", "--json")
        assert shown.exit_code == 0, shown.output
        assert len(server.asked) == asked
        assert (evolve.folder / "r" / "run.db").read_bytes() == before
        evolve("resume", "r", "--set", "caps.candidates=6")
        sent = server.asked[asked].body
    data = json.loads(shown.stdout)
    assert [data["system"], data["messages"][0]["text"]] == [m["content"] for m in sent["messages"]]
    assert data["parameters"]["max_output_tokens"] == sent["max_completion_tokens"]
    assert data["model"] == "local/m1"
    with look(evolve.folder) as view:
        child = view.program(data["number"])
        assert (child.operator, child.parents[0]) == (data["operator"], data["parent"])
        assert list(view.storage.model_calls())[-1].request.digest == data["digest"]


def test_evolve_prompt_for_an_operator_a_model_and_a_parent(evolve, toy, tmp_path):
    def script(asked):
        return Reply(answer(asked.number, 1.2, "build_error" if asked.number == 2 else "passed"))

    models = '[[llm.models]]\nname = "local/m1"\n[[llm.models]]\nname = "local/m2"\n'
    with serving(script) as server:
        settings = {"proposals": 1}
        file = configured(tmp_path / "c.toml", server, models=models, caps={"candidates": 4}, search=settings)
        evolve("run", toy, "--config", file, "--dir", "r")
    data = json.loads(
        evolve("prompt", "r", "--operator", "rewrite", "--model", "local/m2", "--parent", 3, "--json").stdout
    )
    assert (data["operator"], data["model"], data["parent"]) == ("rewrite", "local/m2", 3)
    assert "It failed: build_error" in data["messages"][0]["text"]
    assert not data["fits"]
    odd = evolve("prompt", "r", "--operator", "repair", "--parent", 1).output
    assert "the search would not choose repair for this program" in odd
    text = evolve("prompt", "r", "--operator", "repair").output
    assert "repair on program 3" in text
    assert "would not choose" not in text
    counted = data["estimated_tokens"]
    said = len((data["system"] + data["messages"][0]["text"]).encode()) / 3
    assert counted["system"] > 0
    assert sum(counted.values()) == pytest.approx(said, abs=len(counted)), "all that is sent is counted"
    assert "----- system -----" in text
    for arguments, said in [
        (("--model", "local/m9"), "is not among the run's models: local/m1, local/m2"),
        (("--parent", 99), "has no program 99"),
        (("--operator", "sing"), "'sing' is not one of"),
    ]:
        result = evolve("prompt", "r", *arguments)
        assert result.exit_code == 2
        assert said in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_prompt_tells_what_failed_what_gained_and_who_else_there_is(evolve, toy, tmp_path):
    """Scenario: a user wants to see why a program failed, in the compiler's own words, without reading logs."""

    def script(asked):
        if asked.number % 2:
            return Reply(answer(asked.number, 1.0 + asked.number / 10, note="Unroll the loop."))
        return Reply(answer(asked.number, 0.0, "build_error", note=f"Use intrinsic {asked.number}."))

    with serving(script) as server:
        settings = {"proposals": 1, "islands": 1}
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 12}, search=settings)
        evolve("run", toy, "--config", file, "--dir", "r")
    text = evolve("prompt", "r", "--operator", "diff").output
    assert "build_error. `the source says build_error`" in text
    assert "Use intrinsic" in text
    assert "This change gained" in text
    assert "Unroll the loop." in text
    assert "supported by" in text


def test_the_bandit_learns_from_verdicts_and_waste_and_remembers_them_when_resumed(evolve, toy, tmp_path, monkeypatch):
    policies: list[GainPerCost] = []

    def keep(*arguments):
        policies.append(make_policy(*arguments))
        return policies[-1]

    monkeypatch.setattr("evolve.models.make_policy", keep)

    def script(asked):
        if asked.number % 3 == 0:
            return Reply("I am sorry, I cannot help with that.", finish="refusal")
        return Reply(answer(asked.number, 1.0 + asked.number / 100))

    models = '[[llm.models]]\nname = "local/m1"\n[[llm.models]]\nname = "local/m2"\n'
    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, models=models, caps={"candidates": 12})
        evolve("run", toy, "--config", file, "--dir", "r")
        evolve("resume", "r", "--set", "caps.candidates=18")
    live = policies[-1]._records
    assert sum(record.tries for record in live.values()) > 15
    assert sum(record.cost for record in live.values()) > 0
    assert any(record.successes for record in live.values())
    config = load_config(evolve.folder / "r" / "config.toml")
    with look(evolve.folder) as view:
        budget = Budget(config.caps, view.progress().spent, lambda: 0.0)
        Models(load_task(toy), config.llm, config.prompts, {}).dry(view.storage, RunGate(budget))
    again = policies[-1]._records
    assert again.keys() == live.keys()
    for arm, record in live.items():
        assert vars(again[arm]) == pytest.approx(vars(record)), arm


AT_ONCE = 6


@pytest.mark.parametrize("same", ["equal", "equivalent"])
def test_of_equal_answers_that_end_at_the_same_time_one_is_judged(evolve, toy, tmp_path, monkeypatch, same):
    """All of them are in before any is stored. The others are booked, and what they were counts as known."""
    arrived = asyncio.Barrier(AT_ONCE)
    talks = count(1)

    async def together(*arguments):
        first = next(talks) <= AT_ONCE
        spoken = await converse(*arguments)
        if first:
            await arrived.wait()
        return spoken

    def script(asked):
        if asked.number > AT_ONCE:
            return improving(asked)
        name = f"v{asked.number}" if same == "equivalent" else "v"
        source = f"def f(out):\n    # fake: score=2.0\n    {name} = 7\n    out[:] = {name}\n"
        return Reply(f"One way.\n\n```python\n{source}```\n")

    monkeypatch.setattr("evolve.proposers.llm.converse", together)
    with serving(script) as server:
        settings = {"proposals": AT_ONCE, "queue": AT_ONCE}
        file = configured(tmp_path / "c.toml", server, caps={"candidates": AT_ONCE + 1}, search=settings)
        result = evolve("run", toy, "--config", file, "--dir", "r", "--json")
        assert result.exit_code == 0, result.output
    assert len([source for source in evolve.judge.evaluated if "score=2.0" in source]) == 1
    with look(evolve.folder) as view:
        (one,) = (p.number for p in view.storage.programs() if "score=2.0" in p.source)
        known = [end.message for _, end in view.storage.endings() if end.outcome == "known"]
        assert known == [f"equals program {one} up to layout, comments and local names"] * (AT_ONCE - 1)
        assert view.storage.totals().charge.candidates == AT_ONCE + 1, "and the search went on"
        booked = sum(entry.charge.dollars for entry in view.storage.ledger())
    assert booked == pytest.approx(owed(server))
    assert evolve("replay", "r").exit_code == 0


def test_every_call_is_open_before_it_leaves(evolve, toy, tmp_path):
    """What the server sees is in the database already, with its worst case."""
    seen = []

    def script(asked):
        with closing_rows(evolve.folder / "r" / "run.db", "SELECT status, worst_dollars FROM model_calls") as rows:
            seen.append(rows[-1])
        return improving(asked)

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 3}, search={"proposals": 1})
        evolve("run", toy, "--config", file, "--dir", "r")
    assert [status for status, _ in seen] == [CallStatus.OPEN.value] * 2
    assert all(worst > 0 for _, worst in seen)
