"""Small repairs of a text that can be made without guessing."""

from __future__ import annotations

import itertools
import re

_NUMBERED = re.compile(r"^\s*(\d+)(?:\s?[:|│]|\t)(.*)$")
_LEFT_OUT_WORDS = (
    r"rest|remain\w*|unchanged|existing|same as|as before|omitted|previous|other code|original code|"
    r"no changes?|not shown|keep|continues?"
)
_LEFT_OUT = re.compile(
    rf"^\s*(?://|#|/\*)\s*(?:\(?\s*(?:\.\.\.|…).*\b(?:{_LEFT_OUT_WORDS})\b|.*\b(?:{_LEFT_OUT_WORDS})\b.*(?:\.\.\.|…))",
    re.IGNORECASE,
)
_LINE_MARK = re.compile(r"^\s*(?:(?:#{1,6}|>|[*+-])\s+)+")
"""Of a heading, a quotation or a list's item."""
_EMPHASIS = tuple(
    re.compile(rf"(?:^|(?<=[\s(\[\"'])){mark}([^\s*](?:[^*]*[^\s*])?){mark}(?=[\s.,:;!?)\]\"']|$)")
    for mark in (r"\*", r"\*\*", r"\*\*\*")
)
"""Stars around words, the inner first. Underscores are left: names begin and end with them, hardly ever emphasis."""
_MOST_LINE = 200
"""What says that code is missing says it early; matching a longer line could take long."""
_BARE_ELLIPSIS = re.compile(r"^\s*(?://|#|/\*)?\s*(?:\.\.\.|…)\s*(?:\*/)?\s*$")


def unix_lines(text: str) -> str:
    """Line feeds only."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def without_line_numbers(text: str) -> tuple[str, bool]:
    """The text without consecutive line numbers in front of every line, and whether there were any."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    matches = [_NUMBERED.match(line) for line in filled]
    if len(filled) < 2 or not all(matches):
        return text, False
    numbers = [int(m[1]) for m in matches if m]
    if not all(1 <= after - before <= 1 + _BLANKS for before, after in itertools.pairwise(numbers)):
        return text, False
    rests = [m[2] if (m := _NUMBERED.match(line)) else line for line in lines]
    # One space may belong to the number, but only if every line has it.
    spaced = all(rest.startswith(" ") for rest in rests if rest.strip())
    return "\n".join(rest[1:] if spaced else rest for rest in rests), True


_BLANKS = 3
"""Numbers of blank lines may be missing."""


def left_out_line(text: str, known: str) -> str | None:
    """The first line by which an author says that code is missing, unless ``known`` has that very line."""
    heads = ((line[:_MOST_LINE], line.strip()) for line in text.split("\n"))
    found = [line for head, line in heads if _LEFT_OUT.match(head) or _BARE_ELLIPSIS.match(head)]
    have = {line.strip() for line in known.split("\n")} if found else ()
    return next((line for line in found if line not in have), None)


def first_words(prose: str, most: int = 200) -> str:
    """The first line that says something, without Markdown, for people. Names and expressions keep their characters."""
    for line in prose.splitlines():
        plain = _LINE_MARK.sub("", line)
        for emphasis in _EMPHASIS if "*" in plain else ():
            plain = emphasis.sub(r"\1", plain)
        plain = plain.replace("`", "").lstrip(" :\t").rstrip(" -:\t")
        if len(plain) > 3:
            return plain if len(plain) <= most else plain[: most - 1] + "…"
    return ""
