"""Applying changes to a program: all of them or none."""

from __future__ import annotations

from collections.abc import Sequence

from evaluators.source import evolve_blocks
from evolve.edits.matching import Match, closest, find
from evolve.edits.outcome import Reason, Tolerance, Unfit
from evolve.edits.search_replace import Change
from evolve.edits.text import left_out_line


def apply_changes(source: str, changes: Sequence[Change]) -> tuple[str, frozenset[Tolerance]]:
    """The program after the changes, each made to what the ones before it left.

    Raises:
        Unfit: one does not fit; says which and shows what is there instead.
    """
    tolerated: set[Tolerance] = set()
    for number, change in enumerate(changes, 1):
        name = f"block {number} of {len(changes)}"
        source, how = _apply_one(source, change, name)
        tolerated |= how | change.tolerated
    return source, frozenset(tolerated)


def _apply_one(source: str, change: Change, name: str) -> tuple[str, frozenset[Tolerance]]:
    lines = source.split("\n")
    search = "\n".join(change.search)
    if not change.search:
        raise Unfit(Reason.EMPTY_SEARCH, f"{name}: SEARCH is empty; it must quote the lines to be replaced")
    left_out = left_out_line("\n".join(change.replace), source) or left_out_line(search, source)
    if left_out is not None:
        raise Unfit(Reason.ELIDED, f"{name} leaves code out: {left_out!r}", search)
    match = _only_match(source, lines, change, name)
    fitted = match.fit(change.replace)
    if fitted is None:
        raise Unfit(Reason.NOT_FOUND, f"{name}: SEARCH and REPLACE are indented differently", search, search)
    return "\n".join([*lines[: match.start], *fitted, *lines[match.end :]]), match.tolerated


def _only_match(source: str, lines: list[str], change: Change, name: str) -> Match:
    search = "\n".join(change.search)
    matches = find(lines, change.search)
    if not matches:
        words = f"{name}: SEARCH does not occur in the program"
        raise Unfit(Reason.NOT_FOUND, words, search, closest(lines, change.search))
    if len(matches) > 1:
        # What lies outside the regions may not change, so it is no candidate.
        matches = [m for m in matches if _inside_a_region(source, m)] or matches
    if len(matches) > 1:
        where = ", ".join(str(m.start + 1) for m in matches)
        words = f"{name}: SEARCH occurs {len(matches)} times, at lines {where}; quote more lines to make it unique"
        raise Unfit(Reason.AMBIGUOUS, words, search)
    return matches[0]


def _inside_a_region(source: str, match: Match) -> bool:
    try:
        blocks = evolve_blocks(source)
    except ValueError:
        return False
    return any(b.start_line <= match.start and match.end < b.end_line for b in blocks)
