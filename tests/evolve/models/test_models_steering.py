"""Orders given to a run while it asks models: hints are in the next prompt, weights and caps act at once."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from evolve.agents import orders
from evolve.agents.desk import Desk
from evolve.testing_llm.replies import Reply
from evolve.types import StopReason
from tests.evolve.models.world import answer, configured, improving, look, serving

HINT = "Keep the whole row in registers."
BANNED = "lookup tables"


def worse(asked):
    """Nothing that becomes a parent: the seed stays the one, and it can be tuned."""
    return Reply(answer(asked.number, 0.0001))


def ordering(folder, at, order, reply=improving):
    """A model that gives an order to its own run while it answers request number ``at``."""

    def script(asked):
        if asked.number == at:
            with Desk.open(folder / "r") as desk:
                order(desk)
        return reply(asked)

    return script


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch):
    monkeypatch.setattr("evolve.inbox.LOOK_S", 0.0)


def prompts(server):
    return [json.dumps(asked.body) for asked in server.asked]


@pytest.mark.parametrize("wire", ["chat", "anthropic"])
def test_a_hint_is_in_every_prompt_from_then_on_and_gone_when_withdrawn(evolve, toy, tmp_path, wire):
    def order(desk):
        orders.hint(desk, HINT)
        orders.ban(desk, BANNED)

    def script(asked):
        if asked.number == 6:
            with Desk.open(evolve.folder / "r") as desk:
                orders.withdraw(desk, 1)
        return ordering(evolve.folder, 3, order)(asked)

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, wire, caps={"candidates": 10}, search={"proposals": 1})
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    sent = prompts(server)
    assert [HINT in prompt for prompt in sent] == [False] * 3 + [True] * 3 + [False] * 3
    assert [f"Do not use: {BANNED}" in prompt for prompt in sent] == [False] * 3 + [True] * 6


def test_a_weight_of_nothing_ends_the_asking_and_another_takes_over(evolve, toy, tmp_path):
    def order(desk):
        orders.weight(desk, "tuner=1")
        orders.weight(desk, "llm=0")

    with serving(ordering(evolve.folder, 3, order, worse)) as server:
        tables = {"caps": {"candidates": 9}, "search": {"proposals": 1}, "proposers": {"tuner": 0}}
        file = configured(tmp_path / "c.toml", server, **tables)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    with look(evolve.folder) as view:
        by = Counter(program.proposer for program in view.storage.programs())
    assert len(server.asked) == by["llm"] == 3, "the answer that was under way is taken"
    assert by["tuner"] == 5


def test_a_budget_that_is_cut_stops_the_spending(evolve, toy, tmp_path):
    with serving(ordering(evolve.folder, 4, lambda desk: orders.cap(desk, "dollars=0.000001"))) as server:
        tables = {"caps": {"candidates": 50, "dollars": 9.0}, "search": {"proposals": 1}}
        file = configured(tmp_path / "c.toml", server, **tables)
        result = evolve("run", toy, "--config", file, "--dir", "r", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["reason"] == StopReason.DOLLARS.value
    assert len(server.asked) == 4
    with look(evolve.folder) as view:
        spent = view.storage.totals().charge.dollars
        assert spent == pytest.approx(sum(call.reply.dollars for call in view.storage.model_calls()))
        assert [record.kind for record in view.storage.steering().records] == ["cap"]


def test_a_cap_in_dollars_is_refused_where_a_model_that_is_asked_has_no_price(evolve, toy, tmp_path):
    """Scenario: the price of a model was unknown and counted as zero. Such a cap would never be met."""
    models = '[[llm.models]]\nname = "local/unpriced"\nmax_output_tokens = 600'
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, models=models, caps={"candidates": 2})
        evolve("run", toy, "--config", file, "--dir", "r")
    result = evolve("steer", "r", "cap", "dollars=1")
    assert result.exit_code == 2
    assert "needs the price of local/unpriced: add [llm.prices" in result.stderr
    assert evolve("steer", "r", "cap", "dollars=none").exit_code == 0
    assert evolve("steer", "r", "cap", "candidates=3").exit_code == 0
    with look(evolve.folder) as view:
        assert [record.argument for record in view.storage.steering().records] == ["dollars=none", "candidates=3"]


def test_a_budget_that_is_raised_keeps_the_search_going(evolve, toy, tmp_path):
    with serving(ordering(evolve.folder, 2, lambda desk: orders.cap(desk, "candidates=7"))) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 3}, search={"proposals": 1})
        evolve("run", toy, "--config", file, "--dir", "r")
    assert len(server.asked) == 6


def test_dollars_that_are_given_after_they_ran_out_are_spent_in_the_same_run(evolve, toy, tmp_path):
    """Two calls do not fit: the second is refused while the first, in whose answer more is given, is under way."""
    with serving(ordering(evolve.folder, 1, lambda desk: orders.cap(desk, "dollars=9.0"))) as server:
        tables = {"caps": {"candidates": 7, "dollars": 0.012}, "search": {"proposals": 2}}
        file = configured(tmp_path / "c.toml", server, **tables)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    assert len(server.asked) == 6
