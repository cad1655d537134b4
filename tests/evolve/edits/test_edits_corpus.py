"""Ugly answers, one a file: what is above ``----`` says what must become of what is below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.edits.outcome import REPAIRABLE, Edited, Reason, Unusable
from evolve.edits.reading import EditContext, read_answer
from evolve.llm.answer import Answer, Finish, Usage

FOLDER = Path(__file__).parent / "answers"
FILES = sorted(FOLDER.glob("*.txt"))
LANGUAGES = {"cpp": "cpp", "py": "python"}


def _load(path: Path) -> tuple[dict[str, str], str]:
    head, _, body = path.read_bytes().decode().partition("\n----\n")
    return dict(line.split(": ", 1) for line in head.split("\n")), body


def _context(head: dict[str, str]) -> EditContext:
    parent = (FOLDER / f"parent.{head['parent']}").read_text()
    return EditContext(parent, parent, LANGUAGES[head["parent"]], "entry", int(head.get("most_bytes", "100000")))


def _expected(parent: str, becomes: str) -> str:
    for change in becomes.split(" ;; "):
        old, new = (side.replace("\\n", "\n") for side in change.split(" => "))
        assert parent.count(old) == 1, f"the corpus file names {old!r}, which is not unique in the parent"
        parent = parent.replace(old, new)
    return parent


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_answer(path):
    head, body = _load(path)
    context = _context(head)
    answer = Answer(body, Finish(head.get("finish", "stop")), Usage(), head.get("reasoning", ""))
    outcome = read_answer(answer, context)
    if head["outcome"] == "edited":
        assert isinstance(outcome, Edited), outcome
        assert outcome.source == _expected(context.parent, head["becomes"])
        assert ",".join(sorted(outcome.tolerated)) == head.get("tolerated", "")
        assert outcome.note == head.get("note", outcome.note)
        return
    assert isinstance(outcome, Unusable), outcome
    assert outcome.reason == head["outcome"], outcome
    assert head.get("says", "") in outcome.message
    assert head.get("closest", "") in outcome.closest
    assert "\n" not in outcome.message


def test_the_corpus_has_every_reason():
    seen = {_load(path)[0]["outcome"] for path in FILES}
    assert seen == {"edited", *Reason}


def test_what_has_nothing_to_show_is_not_repaired():
    assert not {Reason.REFUSAL, Reason.EMPTY, Reason.REASONING_ONLY, Reason.TRUNCATED, Reason.TOO_LARGE} & REPAIRABLE
