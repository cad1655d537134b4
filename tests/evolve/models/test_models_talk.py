"""What was said to models can be read afterwards, also where it became no program, and stays data on a terminal."""

from __future__ import annotations

import json

import pytest

from evolve.testing_llm.replies import Fault, Reply
from tests.evolve.models.world import answer, configured, serving

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxet"
NOWHERE = f"Look: {EVIL}\n```\n<<<<<<< SEARCH\nnothing of the kind\n=======\nx\n>>>>>>> REPLACE\n```\n"


def script(asked):
    replies = {
        1: Reply(fault=Fault.SERVER_ERROR),
        2: Reply(answer(2, 1.5, note=f"Another {EVIL} value."), reasoning="Let me think."),
        3: Reply(NOWHERE),  # and no better when it is asked to mend it
        4: Reply(NOWHERE),
        5: Reply("I am sorry, I cannot help with that.", finish="refusal"),
    }
    return replies.get(asked.number, Reply(answer(asked.number, 1.0 + asked.number / 100)))


@pytest.fixture
def run(evolve, toy, tmp_path):
    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, search={"proposals": 1, "islands": 1}, caps={"candidates": 4})
        assert evolve("run", toy, "--config", file, "--dir", "r").exit_code == 0
    return evolve


def listed(run, *arguments):
    result = run("talk", "r", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return {d["outcome"]: d for d in json.loads(result.stdout)["dialogues"]}


def test_the_dialogue_of_a_program_is_shown_with_every_attempt(run):
    number = listed(run)["program"]["number"]
    first = next(d["number"] for d in json.loads(run("talk", "r", "--json").stdout)["dialogues"])
    assert f"evolve talk r {first}" in run("show", "r", first).output
    text = run("talk", "r", first).output
    assert "failed (0 tokens in, 0 out, $0.0000): server_error" in text
    assert "the same question as before" in text
    assert "answered (stop; " in text
    assert "Let me think." in text
    assert "out[:] = 2" in text
    assert text.count("system:") == 1, "what a request repeats is shown once"
    calls = json.loads(run("talk", "r", number, "--json").stdout)["calls"]
    assert calls[-1]["messages"][0]["role"] == "user"
    assert calls[-1]["reply"]["status"] == "answered"


def test_what_became_no_program_is_listed_with_its_reason_and_can_be_read(run):
    found = listed(run)
    assert {"program", "not_found", "refusal"} <= found.keys()
    assert listed(run, "--outcome", "not_found").keys() == {"not_found"}
    row = next(line for line in run("talk", "r").output.splitlines() if "not_found" in line)
    lost = found["not_found"]
    assert row.split()[:5] == [str(lost["number"]), "local/m1", lost["operator"], str(lost["parent"]), "not_found"]
    text = run("talk", "r", found["not_found"]["number"]).output
    assert "===== propose, attempt 1" in text
    assert "===== mend, attempt 1" in text
    assert text.count("nothing of the kind") >= 2
    refused = run("talk", "r", found["refusal"]["number"]).output
    assert "answered (refusal; " in refused
    assert "I am sorry, I cannot help with that." in refused


def test_what_models_say_moves_no_cursor_and_closes_no_fence(run):
    for arguments in (("talk", "r"), *(("talk", "r", d["number"]) for d in listed(run).values()), ("show", "r", 2)):
        plain, data = run(*arguments).output, run(*arguments, "--json").output
        for char in "\x1b\x07\x9b\u202e":
            assert char not in plain
            assert char not in data
    number = listed(run)["not_found"]["number"]
    data = json.loads(run("talk", "r", number, "--json").output)
    assert data["calls"][0]["reply"]["completion"] == NOWHERE, "escaped, not lost"
    lines = run("talk", "r", number).output.splitlines()
    before = lines[next(i for i, line in enumerate(lines) if line.startswith("Look: ")) - 1]
    assert set(before) == {"`"}
    assert len(before) > 3, "longer than any fence of the answer's own"


def test_mistakes_are_one_line(run):
    for arguments, said in (((99,), "r: has no dialogue 99"), (("--outcome", "nonsense"), "there are not_found, prog")):
        result = run("talk", "r", *arguments)
        assert result.exit_code == 2
        assert said in result.stderr
        assert len(result.stderr.splitlines()) == 1
