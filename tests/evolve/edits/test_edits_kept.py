"""Answers that fuzzing came upon: the few that between them reach most of the reader, and what was wrong with one."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from evaluators.source import check_blocks
from evolve.edits.outcome import Edited, Unusable
from evolve.edits.reading import EditContext, read_answer
from evolve.llm.answer import Answer, Finish, Usage

SEED = "int a;\n// EVOLVE-BLOCK-START\nint entry() { return 1; }\nint b;\n// EVOLVE-BLOCK-END\nint c;\n"
FINISHES = list(Finish)
KEPT = json.loads(Path(__file__).with_name("kept_inputs.json").read_bytes())


def outcome_of(data: bytes) -> Edited | Unusable:
    """What an answer comes to; its first byte says how it ended, in which language it is, and whether it ports."""
    language = "python" if data[0] // 16 % 2 else "cpp"
    context = EditContext(SEED, SEED, language, "entry", 100_000, data[0] < 128)
    text = data[1:].decode("utf-8", "surrogateescape")
    outcome = read_answer(Answer(text, FINISHES[data[0] % len(FINISHES)], Usage()), context)
    if isinstance(outcome, Edited):
        assert not context.same_language or check_blocks(SEED, outcome.source) is None
        assert len(outcome.note.splitlines()) <= 1
    else:
        assert len(outcome.message.splitlines()) == 1
    return outcome


@pytest.mark.parametrize("text", KEPT)
def test_what_fuzzing_made_is_a_program_or_a_reason(text):
    if data := base64.b64decode(text):
        outcome_of(data)


@pytest.mark.parametrize("end", ["\x1e", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_the_note_of_a_change_is_one_line_whatever_ends_lines(end):
    answer = f"\0Make it faster{end}and say more\n```cpp\nint entry() {{ return 2; }}\n```\n"
    outcome = outcome_of(answer.encode())
    assert isinstance(outcome, Edited)
    assert outcome.note == "Make it faster"
