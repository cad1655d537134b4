"""Models that have to be left alone for long, or are of no use: whole runs are neither held up nor emptied by them."""

from __future__ import annotations

import pytest

from evolve.testing_llm.replies import Fault, Reply
from tests.evolve.models.world import answer, configured, look, serving

LIMITED = '[[llm.models]]\nname = "local/m1"\nweight = 9.0\n[[llm.models]]\nname = "local/m2"\n'


def test_a_model_that_is_rate_limited_for_a_day_holds_nobody_up(evolve, toy, tmp_path):
    def script(asked):
        limited = asked.body["model"] == "m1"
        return Reply(answer(asked.number, 1.1), fault=Fault.RATE_LIMIT_AFTER if limited else None, retry_after="86400")

    with serving(script) as server:
        tables = {"caps": {"candidates": 12, "seconds": 60.0}, "proposers": {"tuner": 1}}
        file = configured(tmp_path / "c.toml", server, models=LIMITED, **tables)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert "the cap on candidates was met" in result.output
    assert "local/m1: rate_limited (HTTP 429): Rate limit reached; the model rests for 86400 s" in result.output
    asked = [a.body["model"] for a in server.asked]
    assert asked.count("m1") <= 8, "those that were in flight"
    log = (evolve.folder / "r" / "run.log").read_text()
    assert log.count("the model rests for 86400 s") == 1, "not a line for each of them"
    with look(evolve.folder) as view:
        assert {p.model for p in view.storage.programs() if p.proposer == "llm"} == {"local/m2"}


def test_calls_that_end_together_for_a_rest_are_not_taken_for_a_search_without_ideas(
    evolve, toy, tmp_path, monkeypatch
):
    """As many in flight to one model as a search gives up after."""
    monkeypatch.setattr("evolve.llm.breaker._BRIEF_S", 0.0)

    def script(asked):
        limited = asked.number <= 4
        return Reply(answer(asked.number, 1.1), fault=Fault.RATE_LIMIT_AFTER if limited else None, retry_after="1")

    with serving(script) as server:
        search, patience = (
            {"proposals": 4, "give_up_after": 4},
            {"backoff_most_s": 0.5, "failures": 99, "outage_s": 30.0},
        )
        caps = {"candidates": 9, "seconds": 60.0}
        file = configured(tmp_path / "c.toml", server, caps=caps, search=search, llm__patience=patience)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert "the cap on candidates was met" in result.output


def test_a_rate_limit_that_outlasts_the_outage_pauses_the_run_at_once(evolve, toy, tmp_path):
    def script(asked):
        return Reply(fault=Fault.RATE_LIMIT_AFTER, retry_after="86400")

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"seconds": 60.0}, llm__patience={"outage_s": 30.0})
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 75, result.output
    assert "paused: no model can be asked: local/m1: rate_limited (HTTP 429)" in result.output
    assert len(server.asked) <= 8


def test_a_rest_ends_when_the_outage_has_lasted_long_enough(evolve, toy, tmp_path):
    def script(asked):
        return Reply(fault=Fault.OVERLOADED)

    patience = {"attempts": 1, "failures": 2, "rest_s": 1000.0, "outage_s": 0.2}
    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"seconds": 60.0}, llm__patience=patience)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 75, result.output
    assert "paused: no model can be asked: local/m1: overloaded (HTTP 529)" in result.output


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("No kernels today, please.", finish="refusal"), "the model declined: 'No kernels today, please.'"),
        (Reply("I'm sorry, I cannot help with that."), 'the model declined: "I\'m sorry, I cannot help with that."'),
        (Reply("", choices=False), "the answer is empty"),
    ],
)
def test_a_model_that_only_declines_is_soon_left_alone_and_named_with_its_words(evolve, toy, tmp_path, reply, said):
    with serving(lambda asked: reply) as server:
        patience = {"rest_s": 0.2, "outage_s": 0.5}
        file = configured(tmp_path / "c.toml", server, caps={"seconds": 60.0}, llm__patience=patience)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 75, result.output
    assert f"paused: no model can be asked: local/m1: {said}" in result.output
    assert len(server.asked) <= 8 + 3, "those in flight, and one after each rest"
