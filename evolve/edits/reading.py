"""Reading an answer: the one door of this package."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evaluators.source import check_blocks, normal_form
from evaluators.task import Language
from evolve.edits.fences import code_blocks, outside_blocks
from evolve.edits.outcome import Edited, Reason, Tolerance, Unfit, Unusable
from evolve.edits.patch import apply_changes
from evolve.edits.search_replace import has_hunks, has_markers, hunk_changes, marked_changes
from evolve.edits.text import first_words, unix_lines
from evolve.edits.whole import refuse_elisions, whole_program, with_seed_frame
from evolve.llm.answer import Answer, Finish

_POLITE_NO = re.compile(
    r"\bI(?:.?m| am) sorry\b|\bI (?:cannot|can.t|won.t) (?:help|assist|provide|comply)|\bunable to (?:help|assist)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class EditContext:
    """What an answer is an answer to."""

    parent: str
    """The program that was shown, to be changed."""
    seed: str
    """The task's seed program: what lies outside its regions must stay."""
    language: Language
    """Of the program that is to come."""
    entry: str
    most_bytes: int
    """A larger program is not judged."""
    same_language: bool = True
    """``False`` when porting: the frame of the seed is the other language's, and a diff makes no sense."""


def read_answer(answer: Answer, context: EditContext) -> Edited | Unusable:
    """The program that an answer means, or why it means none. Never raises for anything an answer may hold.

    Diffs and whole programs are told apart by what is there, not by what was asked for: models mix them up.
    """
    try:
        return _read(answer, context)
    except Unfit as unfit:
        return unfit.unusable


def _read(answer: Answer, context: EditContext) -> Edited:
    text = unix_lines(answer.text)
    if answer.finish is Finish.REFUSAL:
        raise Unfit(Reason.REFUSAL, "the model declined")
    if not text.strip():
        if answer.finish is Finish.LENGTH or answer.reasoning.strip():
            raise Unfit(Reason.REASONING_ONLY, "the model reasoned and gave no answer")
        raise Unfit(Reason.EMPTY, "the answer is empty")
    truncated = answer.finish is Finish.LENGTH
    source, tolerated = _source(text, context, truncated)
    if "\r" in answer.text:
        tolerated |= {Tolerance.LINE_ENDS}
    _refuse_forbidden(source, context)
    return Edited(source, first_words(outside_blocks(text)), tolerated)


def _source(text: str, context: EditContext, truncated: bool) -> tuple[str, frozenset[Tolerance]]:
    parent = unix_lines(context.parent)
    if has_markers(text) and context.same_language:
        changes, broke_off = marked_changes(text)
        if broke_off or truncated:
            raise Unfit(Reason.TRUNCATED if truncated else Reason.MALFORMED_DIFF, "a SEARCH/REPLACE block has no end")
        return apply_changes(parent, changes)
    hunks = _hunk_text(text)
    if hunks is not None and context.same_language:
        if truncated:
            raise Unfit(Reason.TRUNCATED, "the diff broke off")
        return apply_changes(parent, hunk_changes(hunks))
    return _whole(text, context, truncated)


def _whole(text: str, context: EditContext, truncated: bool) -> tuple[str, frozenset[Tolerance]]:
    try:
        code, tolerated, closed = whole_program(text, context.entry, context.language)
    except Unfit as unfit:
        if truncated:
            raise Unfit(Reason.TRUNCATED, "the answer broke off before any code was whole") from None
        if unfit.unusable.reason is Reason.NO_CODE and _POLITE_NO.search(text[:300]):
            raise Unfit(Reason.REFUSAL, "the model declined") from None
        raise
    if truncated and not closed:
        raise Unfit(Reason.TRUNCATED, "the program broke off")
    parent = unix_lines(context.parent)
    refuse_elisions(code, parent if context.same_language else "")
    if not context.same_language:
        return code, tolerated
    framed, how = with_seed_frame(code, unix_lines(context.seed), parent)
    return framed, tolerated | how


def _hunk_text(text: str) -> str | None:
    """The unified diff in an answer: a block that says so, or bare hunks."""
    for block in code_blocks(text):
        if has_hunks(block.text) and (
            block.language in {"diff", "patch"} or block.text.lstrip().startswith(("---", "@@"))
        ):
            return block.text
    bare = not code_blocks(text) and has_hunks(text)
    return text if bare else None


def _refuse_forbidden(source: str, context: EditContext) -> None:
    if len(source.encode("utf-8", "surrogatepass")) > context.most_bytes:
        raise Unfit(Reason.TOO_LARGE, f"the program has more than {context.most_bytes} bytes")
    if not context.same_language:
        return
    if normal_form(source) == normal_form(unix_lines(context.parent)):
        raise Unfit(Reason.NO_OP, "the answer changes nothing")
    objection = check_blocks(unix_lines(context.seed), source)
    if objection is not None:
        raise Unfit(Reason.OUTSIDE_BLOCK, objection)
