"""Servers that misbehave, answers that cannot be used, and keys that must not be seen: in whole runs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from evolve.cli import main
from evolve.testing_llm.model_server import Manners
from evolve.testing_llm.replies import Fault, Reply
from tests.evolve.models import world
from tests.evolve.models.world import (
    KEY,
    ROOT,
    WITH_THE_REAL_JUDGE,
    answer,
    configured,
    look,
    program,
    serving,
    surroundings,
)

MEND = "could not be used"
GO_ON = "broke off"


def parent_in(prompt: str) -> str:
    """The first line of the program that a prompt shows."""
    return next(line for line in prompt.split("```python\n")[1].splitlines() if line.strip())


def ugly(kind: str):
    """Every first answer is of this kind; whatever is asked afterwards is answered well."""

    def script(asked):
        good = answer(asked.number, 1.1)
        if MEND in asked.prompt or GO_ON in asked.prompt:
            return Reply(good)
        line = parent_in(asked.prompt)
        replies = {
            "no code": Reply("I would unroll the loop."),
            "two programs": Reply(f"```python\n{program(1, 1.0)}```\nor\n```python\n{program(2, 1.0)}```"),
            "no match": Reply("<<<<<<< SEARCH\nnot there = 1\n=======\nit = 2\n>>>>>>> REPLACE"),
            "ellipsis": Reply(f"<<<<<<< SEARCH\n{line}\n...\n=======\n# {asked.number}\n...\n>>>>>>> REPLACE"),
            "truncated": Reply(good[: len(good) // 2], finish="length"),
            "refusal": Reply("I cannot help with that.", finish="refusal"),
            "empty choices": Reply("", choices=False),
            "reasoning only": Reply("", reasoning="Let me think about the loop."),
        }
        return replies[kind]

    return script


@pytest.mark.parametrize("wire", ["chat", "anthropic"])
@pytest.mark.parametrize(
    ("kind", "mended", "reason"),
    [
        ("no code", True, "no_code"),
        ("two programs", True, "several_programs"),
        ("no match", True, "not_found"),
        ("ellipsis", True, "elided"),
        ("truncated", True, "truncated"),
        ("refusal", False, "refusal"),
        ("empty choices", False, "empty"),
        ("reasoning only", False, "reasoning_only"),
    ],
)
def test_an_ugly_answer_becomes_a_judged_program_or_a_reason_why_not(evolve, toy, tmp_path, wire, kind, mended, reason):
    """Scenario: no code, two blocks, no match, ellipses, truncated, a refusal, an empty choice list, reasoning only."""
    with serving(ugly(kind)) as server:
        settings = {"proposals": 1, "give_up_after": 3}
        file = configured(tmp_path / "c.toml", server, wire, caps={"candidates": 3}, search=settings)
        result = evolve("run", toy, "--config", file, "--dir", "r", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    with look(evolve.folder) as view:
        children = [p for p in view.storage.programs() if p.proposer == "llm"]
        assert not view.storage.open_dialogues()
    if mended:
        assert len(children) == 2
        assert all(child.details["reasons"] == [reason] and child.details["calls"] == 2 for child in children)
        assert len(server.asked) == 4
    else:
        assert children == []
        assert data["models"]["unusable"] == {reason: 3}
        assert data["reason"] == "exhausted"
    assert data["models"]["total"]["dollars"] > 0


@pytest.mark.parametrize("how", ["crlf", "trailing space", "indented", "line numbers"])
def test_a_diff_that_can_mean_only_one_thing_is_taken(evolve, toy, tmp_path, how):
    """Scenario: a diff whose SEARCH text does not match: white space, tabs, CRLF, line numbers."""

    def script(asked):
        search = "A = 1  # tune: 1, 2, 3, 4\nB = 1  # tune: 1, 2, 3, 4"
        replace = f"A = 1  # tune: 1, 2, 3, 4\nB = 1  # tune: 1, 2, 3, 4\nC = {asked.number}"
        if how == "line numbers":
            search = "\n".join(f"{n}: {line}" for n, line in enumerate(search.split("\n"), 1))
        if how == "indented":
            search, replace = ("\n".join("    " + line for line in text.split("\n")) for text in (search, replace))
        if how == "trailing space":
            search = search.replace("\n", "   \n")
        text = f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"
        return Reply(text.replace("\n", "\r\n") if how == "crlf" else text)

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 2}, search={"proposals": 1})
        assert evolve("run", toy, "--config", file, "--dir", "r").exit_code == 0
    with look(evolve.folder) as view:
        assert view.program(2).source.endswith("C = 1\n")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("wire", "refuses", "usage"),
    [
        ("chat", ("temperature", "max_completion_tokens", "reasoning_effort", "stream_options"), False),
        ("chat", ("system", "temperature"), True),
        ("anthropic", ("temperature", "output_config"), True),
    ],
)
def test_parameters_a_server_does_not_take_are_left_out_and_remembered(evolve, toy, tmp_path, wire, refuses, usage):
    """Scenario: a model rejects temperature, max_tokens, system role or reasoning; a server omits usage."""
    models = '[[llm.models]]\nname = "local/m1"\nmax_output_tokens = 600\ntemperature = 0.5\neffort = "low"'

    def script(asked):
        return Reply(answer(asked.number, 1.1), usage=usage)

    with serving(script, Manners(key=KEY, refuses=refuses)) as server:
        settings = {"proposals": 1}
        file = configured(
            tmp_path / "c.toml", server, wire, models=models, caps={"candidates": 6, "dollars": 1.0}, search=settings
        )
        result = evolve("run", toy, "--config", file, "--dir", "r", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["tried"] == 6
    assert len(server.asked) <= 5 + len(refuses), "each was learnt once"
    if not usage:
        assert data["models"]["total"]["estimated"] == 5
        assert data["models"]["total"]["dollars"] > 0


def test_an_expired_key_pauses_the_run_and_a_new_one_goes_on(evolve, toy, tmp_path):
    """Scenario: an expired key in the night."""
    expired = [True]

    def script(asked):
        fault = Fault.EXPIRED_KEY if asked.number > 2 and expired[0] else None
        return Reply(answer(asked.number, 1.1), fault=fault)

    with serving(script) as server:
        settings = {"proposals": 1, "queue": 0}
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 8}, search=settings)
        result = evolve("run", toy, "--config", file, "--dir", "r")
        assert result.exit_code == 75, result.output
        assert "no model can be asked: local/m1: authentication (HTTP 401)" in result.output
        assert "Go on with: evolve resume r" in result.output
        assert KEY not in result.output
        with look(evolve.folder) as view:
            assert view.record.status.value == "interrupted"
            assert view.record.reason.startswith("paused: no model can be asked")
            assert view.progress().programs == 3
        expired[0] = False
        assert evolve("resume", "r").exit_code == 0
    with look(evolve.folder) as view:
        assert view.progress().programs == 8


def test_with_another_proposer_the_run_goes_on(evolve, toy, tmp_path):
    def script(asked):
        return Reply(fault=Fault.EXPIRED_KEY)

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 9}, proposers={"tuner": 1})
        result = evolve("run", toy, "--config", file, "--dir", "r", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tried"] == 9
    with look(evolve.folder) as view:
        assert {p.proposer for p in view.storage.programs()} == {"seed", "tuner"}


def test_a_run_goes_on_with_the_other_model_when_one_is_gone(evolve, toy, tmp_path):
    models = '[[llm.models]]\nname = "local/m1"\n[[llm.models]]\nname = "local/m2"\n'

    def script(asked):
        gone = asked.body["model"] == "m1"
        return Reply(answer(asked.number, 1.1), fault=Fault.NO_SUCH_MODEL if gone else None)

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, models=models, caps={"candidates": 8})
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    with look(evolve.folder) as view:
        assert {p.model for p in view.storage.programs()} == {None, "local/m2"}


def test_a_provider_that_is_down_for_a_while_is_waited_for(evolve, toy, tmp_path):
    def script(asked):
        return Reply(answer(asked.number, 1.1), fault=Fault.OVERLOADED if asked.number <= 12 else None)

    patience = {"attempts": 2, "failures": 2, "rest_s": 0.05, "outage_s": 100.0}
    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 5}, llm__patience=patience)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 0, result.output
    assert "proposer: no model can be asked: local/m1: overloaded (HTTP 529)" in result.output
    with look(evolve.folder) as view:
        assert view.progress().programs == 5


def test_a_provider_that_stays_down_pauses_the_run(evolve, toy, tmp_path):
    def script(asked):
        return Reply(fault=Fault.OVERLOADED)

    patience = {"attempts": 1, "failures": 2, "rest_s": 0.05, "outage_s": 0.2}
    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, llm__patience=patience)
        result = evolve("run", toy, "--config", file, "--dir", "r")
    assert result.exit_code == 75, result.output
    assert "paused: no model can be asked" in result.output


POINT = ROOT / "tests" / "data" / "point"
TYPED = [
    (0, "steer", "cap", "candidates=20"),
    (0, "steer", "hint", f"never print {KEY}"),
    (0, "steer", "ban", KEY, "--pattern", "TABLE"),
    (2, "steer", "ban", "it", "--pattern", KEY),
    (0, "ask", "--agent", KEY),
    (2, "tell", "1", "leaky.py"),
    (0, "tell", "1", "harmless.py", "--note", f"without {KEY}"),
    (2, "steer", "inject", "leaky.py", "--note", KEY),
    (0, "steer", "list"),
    (0, "show"),
    (0, "show", "--json"),
    (0, "show", "TOLD"),
    (0, "lineage", "TOLD"),
    (0, "prompt"),
    (0, "prompt", "--operator", "repair"),
    (0, "ask"),
    (0, "db dump", "r/dump.jsonl"),
    (0, "replay"),
]
"""Exit codes, and commands on a run with the key in everything that is typed; ``TOLD`` is the number by tell."""


@pytest.mark.parametrize("wire", ["chat", "anthropic"])
def test_the_key_is_nowhere_in_anything_that_is_written(tmp_path, monkeypatch, wire):
    """Database, logs, configuration, output, prompts, errors and dumps, whoever repeats or types it."""

    def script(asked):
        if GO_ON in asked.prompt:
            return Reply(f"```python\n{KEY[8:]}\n    out[:] = 0.5 + {asked.number} / 100\n```")
        if asked.number == 8:
            said = json.dumps({"error": {"message": f"{'x' * 380} {KEY}"}})
            return Reply(raw=(500, {}, said.encode()))
        if asked.number == 6:
            return Reply(f"```python\ndef point(out):\n    # {KEY[:8]}", finish="length")
        if asked.number % 5 == 3:
            return Reply(fault=Fault.EXPIRED_KEY if asked.number > 12 else Fault.SERVER_ERROR)
        if asked.number % 5 == 4:
            return Reply(f"Your headers are {asked.headers}", reasoning=KEY, model=KEY)
        code = f"def point(out):\n    # {KEY}\n    out[:] = 0.5 + {asked.number} / 100\n"
        if asked.number % 5 == 0:
            code = code.replace("0.5 +", "unknown_name +")
        return Reply(f"The key is {KEY}.\n\n```python\n{code}```", reasoning=f"I was sent {asked.headers}")

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, wire, caps={"candidates": 12}, search={"proposals": 1})
        arguments = ("run", POINT, "--config", file, "--dir", "r", "--display", "plain")
        done = world.evolve(tmp_path, *arguments, program=WITH_THE_REAL_JUDGE)
    assert done.returncode in {0, 75}, done.stderr
    said = done.stdout + done.stderr
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harmless.py").write_text("def point(out):\n    out[:] = 0.125\n")
    (tmp_path / "leaky.py").write_text(f"def point(out):\n    # {KEY}\n    out[:] = 0.25\n")
    told = ""
    for code, command, *more in TYPED:
        result = CliRunner().invoke(main, [*command.split(), "r", *(told if m == "TOLD" else m for m in more)])
        assert result.exit_code == code, (command, more, result.output)
        told = result.output.partition(";")[0].removeprefix("program ") if command == "tell" else told
        said += result.output
    written = b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file())
    assert b"[key]" in written, "what the server repeated is there, without the key"
    assert b"x" * 380 in written, "and so is an error that was cut where the key stood"
    assert KEY[:16].encode() not in written
    assert "what it answered holds the key that LOCAL_KEY holds" in written.decode(errors="replace")
    assert KEY.encode() not in written
    assert KEY[:16] not in said
    assert all(KEY not in json.dumps(a.body) for a in server.asked)
    assert surroundings()["LOCAL_KEY"] == KEY


def test_the_real_judge_and_a_shipped_task_in_a_process_of_its_own(tmp_path):
    def script(asked):
        replace = f"def grow(centres):\n    centres = np.clip(centres + {asked.number} * 1e-4, 0.05, 0.95)"
        return Reply(f"Move.\n\n<<<<<<< SEARCH\ndef grow(centres):\n=======\n{replace}\n>>>>>>> REPLACE\n")

    with serving(script) as server:
        file = configured(tmp_path / "c.toml", server, caps={"candidates": 6}, proposers={"tuner": 1})
        arguments = ("run", "circle_packing", "--config", file, "--dir", "r", "--json")
        done = world.evolve(tmp_path, *arguments, program=WITH_THE_REAL_JUDGE)
        assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["tried"] == 6
    assert data["models"]["total"]["answers"] == len(server.asked) >= 1
    with look(tmp_path) as view:
        assert {p.proposer for p in view.storage.programs()} == {"seed", "tuner", "llm"}
        assert all(p.score is not None for p in view.storage.programs())


def test_dialogues_whose_model_has_left_go_on_with_another_also_when_that_has_to_rest(evolve, toy, tmp_path):
    """Two are broken off. Of the resumed run's only model the first call fails, so the second dialogue has to wait."""

    def silent(asked):
        return Reply(answer(asked.number, 1.1), fault=Fault.SILENCE)

    def failing_once(asked):
        return Reply(answer(asked.number, 1.1), fault=Fault.OVERLOADED if asked.number == 1 else None)

    with serving(silent) as server:
        tables = {"caps": {"seconds": 1.0}, "search": {"proposals": 2}}
        evolve("run", toy, "--config", configured(tmp_path / "c.toml", server, **tables), "--dir", "r")
    with look(evolve.folder) as view:
        assert [dialogue.model for dialogue in view.storage.open_dialogues()] == ["local/m1"] * 2
    patience = {"attempts": 1, "failures": 1, "rest_s": 0.05, "outage_s": 100.0}
    with serving(failing_once) as server:
        tables = {"caps": {"candidates": 3, "seconds": 1000}, "search": {"proposals": 1}, "llm__patience": patience}
        models = '[[llm.models]]\nname = "local/m2"\nmax_output_tokens = 600'
        file = configured(tmp_path / "d.toml", server, models=models, **tables)
        result = evolve("resume", "r", "--config", file)
    assert result.exit_code == 0, result.output
    with look(evolve.folder) as view:
        assert [program.model for program in view.storage.programs()] == [None, "local/m2", "local/m2"]
        assert [dialogue.model for dialogue in view.storage.dialogues()] == ["local/m2"] * 3
        assert [ending.outcome for _, ending in view.storage.endings()] == ["call_failed"]
    assert evolve("replay", "r").exit_code == 0
