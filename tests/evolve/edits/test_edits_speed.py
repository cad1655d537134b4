"""No text makes reading or comparing slow: time grows with its length, not with the square of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from evolve.edits.equivalence import equivalence_key
from evolve.edits.reading import EditContext, read_answer
from evolve.llm.answer import Answer, Finish, Usage

LENGTH = 50_000
PARENT = (Path(__file__).parent / "answers" / "parent.cpp").read_text()
PIECES = [
    '"', "'", 'R"(', 'R"a(', "/*", "a<", "int a(", "x entry(", "void entry(int ", "// rest ", "... rest ", "\\\n",
    "```\n",
    "<<<<<<< SEARCH\n", "@@ -1 +1 @@\n", "1: a\n", "    x\n", "(", "{", "[x for x in ", "1'",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_ugly_text_is_read_and_compared_in_a_moment(piece):
    text = (piece * LENGTH)[:LENGTH]
    began = time.process_time()
    for language in ("cpp", "python"):
        equivalence_key(text, language)
        for wrapped in (text, f"```\n{text}\n```", f"<<<<<<< SEARCH\n{text}\n=======\n{text}\n>>>>>>> REPLACE\n"):
            read_answer(Answer(wrapped, Finish.STOP, Usage()), EditContext(PARENT, PARENT, language, "entry", 10**6))
    assert time.process_time() - began < 5.0
