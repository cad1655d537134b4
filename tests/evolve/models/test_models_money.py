"""Money in whole runs: nothing lost, nothing booked twice, caps held; crashes; mistakes before anything is written."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

from evolve.database.model_records import CallStatus
from evolve.testing_llm.replies import Fault, Reply
from evolve.types import RunStatus
from tests.evolve.models import world
from tests.evolve.models.world import (
    WITH_A_FAKE_JUDGE,
    answer,
    configured,
    improving,
    look,
    owed,
    serving,
    surroundings,
)

FAULTS = [
    Fault.RATE_LIMIT, Fault.RATE_LIMIT_AFTER, Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.HTML, Fault.HTML_502,
    Fault.NOTHING, Fault.RESET, Fault.ERROR_EVENT, Fault.CUT, Fault.SILENCE,
]  # fmt: skip


def faulty(seed: int, share: float = 0.3):
    """Programs, with so many of the requests going wrong."""
    rng = random.Random(seed)

    def script(asked):
        fault = rng.choice(FAULTS) if rng.random() < share else None
        return Reply(answer(asked.number, 1.0 + asked.number / 1000), fault=fault, retry_after="0.1")

    return script


@pytest.mark.parametrize("wire", ["chat", "anthropic"])
def test_with_three_faults_in_ten_nothing_is_lost_or_booked_twice_and_the_cap_holds(evolve, toy, tmp_path, wire):
    """Scenario: 429 with Retry-After, 529, a reset mid-stream, a proxy's page; costs ran away, failures not booked."""
    cap = 0.12
    with serving(faulty(11)) as server:
        file = configured(
            tmp_path / "c.toml", server, wire, caps={"dollars": cap}, search={"proposals": 12, "queue": 12}
        )
        result = evolve("run", toy, "--config", file, "--dir", "r", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["reason"] == "dollars"
    with look(evolve.folder) as view:
        calls = list(view.storage.model_calls())
        dialogues, endings = view.storage.dialogues(), view.storage.endings()
        left = {d.number for d in view.storage.open_dialogues()}
        ledger = [entry for entry in view.storage.ledger() if entry.kind == "model"]
        programs = {p.number for p in view.storage.programs()}
    answered = [c for c in calls if c.reply.status is CallStatus.ANSWERED]
    assert len(calls) == len(server.asked), "every request that left is written down, once"
    assert all(c.reply.status is not CallStatus.OPEN for c in calls)
    assert len(ledger) == len(calls), "each is booked once"

    complete = [b for b in server.billed if b.complete]
    assert len(answered) == len(complete), "every whole answer was taken, and none was paid for twice"
    assert sum(c.reply.tokens_in for c in answered) == sum(b.input_tokens for b in complete)
    assert sum(c.reply.tokens_out for c in answered) == sum(b.output_tokens for b in complete)
    assert max(Counter((c.request.program, c.request.step) for c in answered).values()) == 1

    ended = {ending.number for _, ending in endings}
    assert {d.number for d in dialogues} <= programs | ended | left, "no dialogue is lost"
    assert not programs & ended

    spent = data["spent"]["charge"]["dollars"]
    assert spent == pytest.approx(sum(c.reply.dollars for c in calls))
    assert spent == pytest.approx(data["models"]["total"]["dollars"])
    assert spent <= cap
    assert owed(server) <= spent * 1.001, "estimates may be high, not low"
    assert spent > cap - max(c.request.worst_dollars for c in calls), "the cap was used"


def test_the_cap_on_tokens_holds_too(evolve, toy, tmp_path):
    with serving(faulty(5)) as server:
        file = configured(tmp_path / "c.toml", server, caps={"tokens": 30_000}, search={"proposals": 6})
        data = json.loads(evolve("run", toy, "--config", file, "--dir", "r", "--json").stdout)
    assert data["reason"] == "tokens"
    assert data["spent"]["charge"]["tokens"] <= 30_000
    assert sum(b.input_tokens + b.output_tokens for b in server.billed) <= 30_000


def test_where_a_dear_model_no_longer_fits_the_cap_a_cheap_one_is_asked(evolve, toy, tmp_path):
    models = (
        '[[llm.models]]\nname = "local/m1"\nmax_output_tokens = 30000\n'
        '[[llm.models]]\nname = "local/m2"\nmax_output_tokens = 300\n'
    )
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, models=models, caps={"dollars": 0.03})
        data = json.loads(evolve("run", toy, "--config", file, "--dir", "r", "--json").stdout)
    assert data["reason"] == "dollars"
    assert {a.body["model"] for a in server.asked} == {"m2"}, "30,000 tokens may cost 0.3 dollars"
    assert data["models"]["by_model"]["local/m2"]["answers"] >= 3


def test_a_cap_below_the_first_call_ends_the_run_before_anything_is_sent(evolve, toy, tmp_path):
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, caps={"dollars": 0.0001})
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    assert "ended         the cap on dollars was met" in result.output
    assert server.asked == []


def test_a_raised_cap_goes_on(evolve, toy, tmp_path):
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, caps={"dollars": 0.03})
        evolve("run", toy, "--config", file, "--dir", "r")
        before = len(server.asked)
        data = json.loads(evolve("resume", "r", "--set", "caps.dollars=0.06", "--json").stdout)
    assert data["reason"] == "dollars"
    assert before < len(server.asked)
    assert 0.03 < owed(server) <= 0.06
    assert data["spent"]["charge"]["dollars"] == pytest.approx(owed(server))


def test_a_model_without_a_price_costs_an_unknown_amount_and_not_zero(evolve, toy, tmp_path):
    """Scenario: the price of a model was unknown and counted as zero."""
    models = '[[llm.models]]\nname = "local/unpriced"\nmax_output_tokens = 600'
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, models=models, caps={"candidates": 3})
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0
    assert result.output.count("local/unpriced has no price: operators and models are chosen by gain per device") == 1
    assert "2 requests to models without a price: the dollars are not all" in result.output
    (row,) = (line.split() for line in result.output.splitlines() if line.startswith("local/unpriced  "))
    assert (row[2:4], row[-4:]) == (["2", "2"], ["unpriced", "2", "2", "-"]), "what it costs each nobody knows"
    sums = json.loads(evolve("show", "r", "--json").stdout)["models"]["total"]
    assert (sums["unpriced"], sums["improved"], sums["dollars_per_improvement"]) == (2, 2, None)
    with look(evolve.folder) as view:
        assert [c.reply.dollars for c in view.storage.model_calls()] == [None, None]


IN_FLIGHT = 4


def test_after_kill_nine_nothing_paid_for_is_asked_again(toy, tmp_path):
    """Scenario: resumed runs repeat paid calls.

    Every dialogue has one stored answer, which cannot be used, and hangs in its second call when the process dies.
    """
    all_hang = threading.Event()
    killed = threading.Event()
    mends = []

    def script(asked):
        if "could not be used" not in asked.prompt:
            return Reply("I would unroll the loop.")
        mends.append(asked)
        if len(mends) >= IN_FLIGHT:
            all_hang.set()
        return Reply(answer(asked.number, 1.5), fault=None if killed.is_set() else Fault.SILENCE)

    with serving(script) as server:
        file = configured(
            tmp_path / "c.toml",
            server,
            caps={"candidates": 1 + IN_FLIGHT, "dollars": 1.0},
            search={"proposals": IN_FLIGHT, "queue": IN_FLIGHT},
            llm__patience={"silence_s": 60.0},
        )
        command = [sys.executable, "-c", WITH_A_FAKE_JUDGE, "run", str(toy), "--config", str(file), "--dir", "r"]
        with subprocess.Popen(command, cwd=tmp_path, env=surroundings(), stdout=subprocess.DEVNULL) as process:
            assert all_hang.wait(60)
            os.kill(process.pid, signal.SIGKILL)
        killed.set()
        asked = len(server.asked)
        with look(tmp_path) as view:
            begun = view.storage.open_dialogues()
            assert len(begun) == IN_FLIGHT
            assert view.record.status is RunStatus.RUNNING
            worst = sum(c.request.worst_dollars for c in view.storage.model_calls() if c.reply is None)
        result = world.evolve(tmp_path, "resume", "r", "--json")
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout)
    again = server.asked[asked:]
    assert len(again) == IN_FLIGHT, "the second calls, and nothing that was answered before"
    assert all("could not be used" in a.prompt for a in again)
    assert data["tried"] == 1 + IN_FLIGHT
    with look(tmp_path) as view:
        calls = list(view.storage.model_calls())
        children = {p.number: p for p in view.storage.programs() if p.proposer == "llm"}
        totals = view.storage.totals()
    assert set(children) == {d.number for d in begun}
    assert {(n, p.parents[0], p.operator) for n, p in children.items()} == {
        (d.number, d.parent, d.operator) for d in begun
    }
    lost = [c for c in calls if c.reply.status is CallStatus.LOST]
    assert len(lost) == IN_FLIGHT
    assert sum(c.reply.dollars for c in lost) == pytest.approx(worst), "an unfinished call counts with its worst case"
    assert totals.charge.dollars == pytest.approx(sum(c.reply.dollars for c in calls))
    assert totals.charge.dollars >= owed(server)


SHAPED = "sk-proj-0123456789abcdef"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": '[[llm.models]]\nname = "nobody/m"'}, "model nobody/m: unknown provider 'nobody'"),
        ({"models": '[[llm.models]]\nname = "gpt"'}, "model 'gpt': write it as provider/model"),
        ({"models": '[[llm.models]]\nname = "local/m1"\n[[llm.models]]\nname = "local/m1"'}, "local/m1 is named twice"),
        ({"models": '[[llm.models]]\nname = "local/m1"\noperators = ["sing"]'}, "local/m1: no operator 'sing'"),
        ({"models": '[[llm.models]]\nname = "local/m1"\noperators = ["repair"]'}, "one of the operators diff, rewrite"),
        ({"models": '[[llm.models]]\nname = "openai/gpt-5-mini"'}, "set OPENAI_API_KEY in the environment"),
        ({"models": '[[llm.models]]\nname = "local/mx"'}, 'add [llm.prices."local/mx"] with input'),
        ({"models": '[[llm.models]]\nnam = "local/m1"'}, "c.toml: unknown key 'llm.models.nam'"),
        ({"models": "[llm]\nmodels = []", "proposers": {"llm": 1.0}}, "llm.models names none"),
        ({"prompts": {"folder": "/nowhere"}}, "/nowhere: no such folder of prompts"),
        (
            {"llm__providers__local": {"base_url": "host:8000"}},
            "llm.providers.local.base_url: give the server's address",
        ),
        ({"llm__providers__local": {"base_url": "http://h/v1?v=1&API%5Fkey=pa"}}, "local: no key in base_url"),
        ({"llm__providers__x": {"base_url": f"http://h/v1?x={SHAPED}"}}, "providers.x: no key in base_url"),
        ({"llm__providers__x": {"base_url": f"http://h/{SHAPED}/v1"}}, "providers.x: no key in base_url"),
        ({"llm__providers__x": {"base_url": "http://h/v1#my-plain-words"}}, "x.base_url holds the key that LOCAL_KEY"),
        ({"llm__providers__x": {"base_url": "http://me:my-plain-words@h"}}, "providers.x: no password in an address"),
        ({"llm__providers__local": {"key_env": SHAPED}}, "local: key_env is the name of the environment variable"),
        ({"llm__providers__local": {"key_env": "hf_a1b2c3d4e5f6g7h8i9"}}, "local: key_env is the name of"),
        ({"llm__providers__local": {"key_env": "my-plain-words"}}, "local: key_env is the name of"),
    ],
)
def test_a_mistake_about_models_is_one_line_and_nothing_is_written(evolve, toy, tmp_path, monkeypatch, changes, said):
    monkeypatch.setenv("LOCAL_KEY", "my-plain-words")
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server, **{"caps": {"dollars": 1.0}, **changes})
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 2, result.output + repr(result.exception)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    for key in ("my-plain", "sk-", "hf_", "=pa"):
        assert key not in result.output
    assert not (evolve.folder / "r").exists()
    assert evolve.started == [], "before the judge is started"
    assert server.asked == []


def test_a_missing_key_is_named(evolve, toy, tmp_path, monkeypatch):
    monkeypatch.delenv("LOCAL_KEY")
    with serving(improving) as server:
        file = configured(tmp_path / "c.toml", server)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 2
    assert result.stderr == "evolve: model local/m1: set LOCAL_KEY in the environment\n"
