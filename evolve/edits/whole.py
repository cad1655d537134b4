"""A whole program in an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evaluators.source import evolve_blocks
from evaluators.task import Language
from evolve.edits.fences import Fenced, code_blocks
from evolve.edits.outcome import Reason, Tolerance, Unfit
from evolve.edits.text import left_out_line, without_line_numbers

_STARTS = {
    "cpp": re.compile(
        r"^(?:#\s*(?:include|pragma|define|if)|//|/\*|extern|namespace|template|using|static|struct|constexpr)"
    ),
    "python": re.compile(r"^(?:import |from |def |class |@|#|\"\"\"|[A-Z_]+ = )"),
}
_FAMILY: dict[Language, str] = {"cpp": "cpp", "cuda": "cpp", "python": "python", "triton": "python"}


def whole_program(text: str, entry: str, language: Language) -> tuple[str, frozenset[Tolerance], bool]:
    """The one program an answer holds, what was tolerated, and whether its code block is closed.

    Raises:
        Unfit: there is none, or more than one.
    """
    blocks = [b for b in code_blocks(text) if b.text.strip()]
    if not blocks:
        return _unfenced(text, entry, language), frozenset({Tolerance.NO_FENCE}), True
    block, tolerated = _one_of(blocks, entry)
    code, numbered = without_line_numbers(block.text)
    tolerated |= {Tolerance.LINE_NUMBERS} if numbered else set()
    tolerated |= set() if block.closed else {Tolerance.OPEN_FENCE}
    return code.strip("\n") + "\n", frozenset(tolerated), block.closed


def _one_of(blocks: Sequence[Fenced], entry: str) -> tuple[Fenced, set[Tolerance]]:
    if len(blocks) == 1:
        return blocks[0], set()
    defining = [b for b in blocks if _defines(b.text, entry)]
    if len({b.text.strip() for b in defining}) == 1:
        return defining[-1], {Tolerance.SEVERAL_BLOCKS}
    found = "none of which defines" if not defining else f"{len(defining)} of which define"
    raise Unfit(Reason.SEVERAL_PROGRAMS, f"the answer has {len(blocks)} code blocks, {found} {entry}")


def _defines(code: str, entry: str) -> bool:
    """Whether a text defines the entry, as opposed to calling it."""
    name = re.escape(entry)
    return re.search(rf"\bdef\s+{name}\s*\(|[\w*&>\]]\s+\**&?{name}\s*\([^;]*?\)\s*\{{", code, re.DOTALL) is not None


def _unfenced(text: str, entry: str, language: Language) -> str:
    """An answer that is nothing but code."""
    code, _ = without_line_numbers(text.strip("\n"))
    first = next((line for line in code.split("\n") if line.strip()), "")
    if _STARTS[_FAMILY[language]].match(first) and _defines(code, entry):
        return code.strip("\n") + "\n"
    raise Unfit(Reason.NO_CODE, "the answer holds no code block")


def refuse_elisions(code: str, parent: str) -> None:
    """A program with a part left out is no program.

    Raises:
        Unfit: a line says that something is left out.
    """
    left_out = left_out_line(code, parent)
    if left_out is not None:
        raise Unfit(Reason.ELIDED, f"the program leaves code out: {left_out!r}; give all of it")


def with_seed_frame(code: str, seed: str, parent: str) -> tuple[str, frozenset[Tolerance]]:
    """Put what the answer gives for the regions into the frame that the task fixes.

    The answer may be the program with its markers, the program without them, or the one region's text alone.

    Raises:
        Unfit: it is neither, beyond doubt.
    """
    try:
        seed_blocks = evolve_blocks(seed)
        has_markers = bool(evolve_blocks(code))
    except ValueError as error:
        raise Unfit(Reason.OUTSIDE_BLOCK, f"EVOLVE-BLOCK markers: {error}") from None
    if not seed_blocks or has_markers:
        return code, frozenset()
    if len(seed_blocks) > 1:
        raise Unfit(Reason.OUTSIDE_BLOCK, "the EVOLVE-BLOCK markers are missing; keep them as they are")
    lines = parent.split("\n")
    (region,) = evolve_blocks(parent)
    before, after = lines[: region.start_line - 1], lines[region.end_line :]
    body, how = _region_text(code, before, after)
    framed = [*lines[: region.start_line], *body, *lines[region.end_line - 1 :]]
    return "\n".join(framed), frozenset({how})


def _region_text(code: str, before: list[str], after: list[str]) -> tuple[list[str], Tolerance]:
    body = code.rstrip("\n").split("\n")
    head, tail = _filled(before), _filled(after)
    given = [line.rstrip() for line in body]
    has_head = not head or _filled(body)[: len(head)] == head
    has_tail = not tail or _filled(body)[len(_filled(body)) - len(tail) :] == tail
    if (head or tail) and has_head and has_tail:
        return _cut(body, len(head), len(tail)), Tolerance.NO_MARKERS
    if not any(line in given for line in head if len(line) > 3):
        return body, Tolerance.REGION_ONLY
    raise Unfit(
        Reason.OUTSIDE_BLOCK, "the EVOLVE-BLOCK markers are missing and the rest differs; keep both as they are"
    )


def _filled(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines if line.strip()]


def _cut(body: list[str], head: int, tail: int) -> list[str]:
    """The body without its first and last so many lines, blank ones not counted."""
    filled = [n for n, line in enumerate(body) if line.strip()]
    start = filled[head] if head < len(filled) else len(body)
    end = filled[len(filled) - tail - 1] + 1 if tail < len(filled) else 0
    return body[start:end]
