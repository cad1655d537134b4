"""Keys that people and agents type, by mistake, into what they say to a run: none of them is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.errors import UsageError
from evolve.agents.entrance import NOTE_LIMIT, Entrance
from evolve.llm.provider import redactor
from evolve.llm.settings import LlmSettings, ProviderSettings
from evolve.testing import fake_source
from tests.evolve.conftest import CommandLine

KEY = "plain-words-that-are-a-key"
"""Nothing in its looks says that it is one: it is known because the environment holds it."""
SHAPED = "sk-proj-0123456789abcdefABCDEF"
"""Known by its looks alone."""
SAID = f"use {KEY} or {SHAPED}"


@pytest.fixture
def run(evolve: CommandLine, toy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose models are not asked, in an environment with the key of their provider."""
    (toy / "seed.py").write_text(fake_source(1.0))
    monkeypatch.setenv("MINE_KEY", KEY)
    mine = ("--set", "llm.providers.mine={base_url='http://127.0.0.1:9/v1', key_env='MINE_KEY'}")
    done = evolve("run", toy, "--dir", "night", "--proposers", "tuner", *mine)
    assert done.exit_code == 0, done.output
    return evolve.folder / "night"


def leaks(folder: Path) -> list[str]:
    """Files of a run that hold one of the keys."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(key.encode() in path.read_bytes() for key in (KEY, SHAPED))]


def test_what_is_said_is_stored_and_shown_without_them(evolve: CommandLine, run: Path) -> None:
    (evolve.folder / "a.py").write_text(fake_source(2.0))
    (evolve.folder / "b.py").write_text(fake_source(3.0))
    said = [
        evolve("steer", "night", "hint", SAID),
        evolve("steer", "night", "ban", SAID, "--pattern", "TABLE"),
        evolve("ask", "night", "--agent", KEY),
        evolve("tell", "night", 1, "a.py", "--note", SAID),
        evolve("steer", "night", "inject", "b.py", "--note", SAID, "--agent", SHAPED),
        evolve("steer", "night", "list", "--json"),
        evolve("resume", "night"),
        evolve("show", "night"),
        evolve("show", "night", 2),
        evolve("show", "night", 3),
        evolve("ask", "night"),
        evolve("db", "dump", "night", "night/dump.jsonl"),
        evolve("replay", "night"),
    ]
    for done in said:
        assert done.exit_code == 0, done.output
        assert KEY not in done.output
        assert SHAPED not in done.output
    assert leaks(run) == []
    assert "use [key] or [key]" in said[5].output
    assert "use [key] or [key]" in said[8].output
    assert "agent ([key])" in said[8].output
    assert "use [key] or [key]" in said[10].output, "what was hinted is in the next briefing"


def test_a_source_or_pattern_that_holds_one_is_refused_and_not_changed(evolve: CommandLine, run: Path) -> None:
    evolve("ask", "night")
    (evolve.folder / "a.py").write_text(fake_source(2.0, text=f'KEY = "{KEY}"'))
    for arguments in [
        ("tell", "night", 1, "a.py"),
        ("steer", "night", "inject", "a.py"),
        ("steer", "night", "ban", "that", "--pattern", KEY),
    ]:
        done = evolve(*arguments)
        assert done.exit_code == 2, arguments
        assert "holds the key that MINE_KEY holds: take it out, nothing was stored" in done.output
        assert done.output.count("\n") == 1
        assert KEY not in done.output
    assert leaks(run) == []
    (evolve.folder / "a.py").write_text(fake_source(2.0, text=f"# {SHAPED} is an example"))
    assert evolve("tell", "night", 1, "a.py").output.startswith("program 2;"), "by its looks alone none is refused"


def entrance(**environment: str) -> Entrance:
    settings = LlmSettings(providers={"mine": ProviderSettings(base_url="http://h/v1", key_env="MINE_KEY")})
    return Entrance(redactor(settings, environment))


@pytest.mark.parametrize("variable", ["MINE_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"])
def test_keys_of_all_providers_are_known_whether_they_are_asked_or_not(variable: str) -> None:
    door = entrance(**{variable: KEY})
    assert door.remark(f"a {KEY} b") == "a [key] b"
    with pytest.raises(UsageError, match=f"the key that {variable} holds"):
        door.source(f"x = '{KEY}'")


def test_a_key_is_not_cut_in_two_by_the_limit_of_a_note() -> None:
    door = entrance(MINE_KEY=KEY)
    for length in range(NOTE_LIMIT - len(KEY) - 2, NOTE_LIMIT + 2):
        kept = door.remark("x" * length + KEY)
        assert KEY[:12] not in kept
        assert len(kept) <= NOTE_LIMIT


@pytest.mark.parametrize(
    "text",
    [
        "_ZN7cutlass4gemm6kernel13DefaultGemmIfNS_6layout8RowMajorE and bytes_per_token: 4096",
        "sk-learn-style transposition, as in sk-learn-style-transposition-of-rows",
        "hf_weights are row-major; risk-0123456789abcdef0123 is no key",
        "AKIA, sk-1 and gsk_short1 are too short",
    ],
)
def test_words_of_the_trade_are_left_alone(text: str) -> None:
    assert entrance().remark(text) == text


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-abcdefgh-0123456789_XYZ",
        "sk-or-v1-0123456789abcdef0123456789abcdef",
        "gsk_0123456789abcdefghij",
        "AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
        "hf_abcdefghijKLMNOPqrst0123456789",
    ],
)
def test_what_looks_like_a_key_is_taken_out_of_remarks(key: str) -> None:
    assert entrance().remark(f"with {key}, as before") == "with [key], as before"
