"""Code blocks in Markdown, as models write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$")


@dataclass(frozen=True)
class Fenced:
    """One code block."""

    language: str
    """The info string's first word, in lower case."""
    text: str
    closed: bool
    first_line: int
    """Of the opening fence; lines count from 0."""
    last_line: int
    """Of the closing fence, or of the text's end."""


def code_blocks(text: str) -> list[Fenced]:
    """The outermost code blocks, in order; the last one may lack its end."""
    lines = text.split("\n")
    blocks: list[Fenced] = []
    at = 0
    while at < len(lines):
        opening = _OPEN.match(lines[at])
        if opening is None:
            at += 1
            continue
        end = _closing_line(lines, at + 1, opening[2])
        stop = len(lines) if end is None else end
        body = "\n".join(_unindent(line, opening[1]) for line in lines[at + 1 : stop])
        blocks.append(Fenced(opening[3].lower(), body, end is not None, at, min(stop, len(lines) - 1)))
        at = stop + 1
    return blocks


def outside_blocks(text: str) -> str:
    """What is said between the code blocks."""
    lines = text.split("\n")
    for block in reversed(code_blocks(text)):
        del lines[block.first_line : block.last_line + 1]
    return "\n".join(lines)


def without_fences(text: str) -> tuple[str, bool]:
    """The text without a pair of fences that encloses all of it, and whether there was one."""
    lines = text.split("\n")
    filled = [n for n, line in enumerate(lines) if line.strip()]
    if len(filled) < 2:
        return text, False
    first, last = filled[0], filled[-1]
    opening = _OPEN.match(lines[first])
    if opening is None or not _closes(lines[last], opening[2]):
        return text, False
    return "\n".join(lines[first + 1 : last]), True


def _closing_line(lines: list[str], start: int, fence: str) -> int | None:
    return next((n for n in range(start, len(lines)) if _closes(lines[n], fence)), None)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}


def _unindent(line: str, indent: str) -> str:
    return line.removeprefix(indent)
