"""SEARCH/REPLACE blocks and unified diffs in an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from evolve.edits.fences import without_fences
from evolve.edits.outcome import Reason, Tolerance, Unfit
from evolve.edits.text import without_line_numbers

_SEARCH = re.compile(r"^\s*<{5,9}\s*(?:SEARCH|ORIGINAL|HEAD)\b.*$", re.IGNORECASE)
_DIVIDER = re.compile(r"^\s*={5,9}\s*$")
_REPLACE = re.compile(r"^\s*>{5,9}\s*(?:REPLACE|UPDATED)\b.*$", re.IGNORECASE)
_HUNK = re.compile(r"^@@(?: -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*| .*|)$")
_FILE_HEADER = re.compile(r"^(?:---|\+\+\+|diff |index )")


@dataclass
class Change:
    """Lines to look for and lines to put there."""

    search: list[str] = field(default_factory=list)
    replace: list[str] = field(default_factory=list)
    tolerated: set[Tolerance] = field(default_factory=set)


def has_markers(text: str) -> bool:
    """Whether the answer uses SEARCH/REPLACE blocks at all."""
    return any(_SEARCH.match(line) for line in text.split("\n"))


def has_hunks(text: str) -> bool:
    """Whether the answer is a unified diff."""
    lines = text.split("\n")
    return any(_HUNK.match(line) for line in lines) and any(line[:1] in "+-" for line in lines if line)


def marked_changes(text: str) -> tuple[list[Change], bool]:
    """The SEARCH/REPLACE blocks, in order, and whether the text broke off inside one.

    Raises:
        Unfit: the markers are out of order.
    """
    changes: list[Change] = []
    part = "outside"
    for number, line in enumerate(text.split("\n"), 1):
        if _SEARCH.match(line):
            if part != "outside":
                raise Unfit(Reason.MALFORMED_DIFF, f"line {number} of the answer: a SEARCH begins inside another block")
            changes.append(Change())
            part = "search"
        elif part == "search" and _DIVIDER.match(line):
            part = "replace"
        elif part == "replace" and _DIVIDER.match(line):
            raise Unfit(Reason.MALFORMED_DIFF, f"line {number} of the answer: a second ======= in one block")
        elif _REPLACE.match(line):
            if part != "replace":
                raise Unfit(Reason.MALFORMED_DIFF, f"line {number} of the answer: a REPLACE without SEARCH and =======")
            part = "outside"
        elif part != "outside":
            getattr(changes[-1], part).append(line)
    return [_tidy(change) for change in changes], part != "outside"


def hunk_changes(text: str) -> list[Change]:
    """The hunks of a unified diff as changes; their line numbers are not relied on."""
    changes: list[Change] = []
    for line in text.split("\n"):
        if _HUNK.match(line):
            changes.append(Change(tolerated={Tolerance.UNIFIED_DIFF}))
        elif not changes or _FILE_HEADER.match(line) or line.startswith("\\"):
            continue
        elif line[:1] == "-":
            changes[-1].search.append(line[1:])
        elif line[:1] == "+":
            changes[-1].replace.append(line[1:])
        else:
            for side in (changes[-1].search, changes[-1].replace):
                side.append(line.removeprefix(" "))
    return [_without_blank_edges(change) for change in changes]


def _tidy(change: Change) -> Change:
    """Take off what models put around the two parts: fences, line numbers, blank lines."""
    for name in ("search", "replace"):
        body, fenced = without_fences("\n".join(getattr(change, name)))
        body, numbered = without_line_numbers(body)
        setattr(change, name, body.split("\n") if body else [])
        change.tolerated |= {Tolerance.FENCED_PARTS} if fenced else set()
        change.tolerated |= {Tolerance.LINE_NUMBERS} if numbered else set()
    return _without_blank_edges(change)


def _without_blank_edges(change: Change) -> Change:
    """Blank lines at both ends of SEARCH are of no help in finding; REPLACE loses as many, where it has them."""
    for at in (0, -1):
        while change.search and not change.search[at].strip():
            change.search.pop(at)
            if change.replace and not change.replace[at].strip():
                change.replace.pop(at)
            change.tolerated.add(Tolerance.BLANK_EDGES)
    return change
