"""Conventions inside a candidate's source text: the regions that may change, and the compiler flags it picks.

A region is what lies between a comment line ``EVOLVE-BLOCK-START`` and the next comment line ``EVOLVE-BLOCK-END``.
All comparisons are by line and ignore white space at line ends, so that editors and models cannot break them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MARKER = re.compile(r"^\s*(?://|#|/\*)\s*EVOLVE-BLOCK-(START|END)\b")
_MARKER_WORD = re.compile(r"EVOLVE-BLOCK-(?:START|END)\b")
_FLAGS_LINE = re.compile(r"^\s*(?://|#)\s*build-flags:(.*)$")


@dataclass(frozen=True)
class Block:
    """One region that may change. Line numbers count from 1."""

    start_line: int
    """The line of its ``EVOLVE-BLOCK-START`` comment."""
    end_line: int
    """The line of its ``EVOLVE-BLOCK-END`` comment."""
    text: str
    """What lies between, without the two comment lines."""


def normal_form(source: str) -> str:
    """The text with white space at line ends, blank lines at the end and carriage returns before them removed."""
    return "\n".join(_lines(source)).rstrip("\n") + "\n"


def source_hash(source: str) -> str:
    """SHA-256 of the normal form: equal for texts that differ only at line ends."""
    return hashlib.sha256(normal_form(source).encode("utf-8", "surrogatepass")).hexdigest()


def evolve_blocks(source: str) -> tuple[Block, ...]:
    """The regions of a source, in order; empty where it marks none.

    Raises:
        ValueError: Markers are nested, unbalanced, or share a line with code; one line that names the line.
    """
    lines = _lines(source)
    blocks: list[Block] = []
    start: int | None = None
    for number, line in enumerate(lines, 1):
        kind = _marker(line, number)
        if kind is None:
            continue
        if kind == "START":
            if start is not None:
                raise ValueError(f"line {number}: EVOLVE-BLOCK-START inside the block that starts at line {start}")
            start = number
        else:
            if start is None:
                raise ValueError(f"line {number}: EVOLVE-BLOCK-END without an EVOLVE-BLOCK-START before it")
            blocks.append(Block(start, number, "\n".join(lines[start : number - 1])))
            start = None
    if start is not None:
        raise ValueError(f"line {start}: EVOLVE-BLOCK-START without an EVOLVE-BLOCK-END after it")
    return tuple(blocks)


def check_blocks(seed_source: str, source: str) -> str | None:
    """Whether ``source`` changes only what the seed lets it change.

    This compares text. What a program *does* is for the judge: a block may well open a comment that swallows the
    lines after it.

    Returns:
        ``None`` where it does, or where the seed marks no region at all; else one line that says what differs.

    Raises:
        ValueError: The seed's own markers are wrong, which is the task's mistake.
    """
    seed_blocks = evolve_blocks(seed_source)
    if not seed_blocks:
        return None
    try:
        blocks = evolve_blocks(source)
    except ValueError as error:
        return str(error)
    if len(blocks) != len(seed_blocks):
        return f"{len(blocks)} EVOLVE-BLOCK regions where the seed has {len(seed_blocks)}: keep its markers as they are"
    outside, seed_outside = _outside(source, blocks), _outside(seed_source, seed_blocks)
    for segment, seed_segment in zip(outside, seed_outside, strict=True):
        for (number, line), (_, seed_line) in zip(segment, seed_segment, strict=False):
            if line != seed_line:
                return f"line {number} lies outside the EVOLVE-BLOCK regions and differs from the seed's"
        if len(segment) != len(seed_segment):
            return (
                f"lines {'added' if len(segment) > len(seed_segment) else 'missing'} outside the EVOLVE-BLOCK regions"
            )
    return None


def outside_equal(seed_source: str, source: str) -> bool:
    """True where :func:`check_blocks` has no objection."""
    return check_blocks(seed_source, source) is None


def flags_line(source: str) -> int | None:
    """The number of the ``// build-flags:`` line, counting from 1.

    Raises:
        ValueError: There are two.
    """
    found = [number for number, line in enumerate(_lines(source), 1) if _FLAGS_LINE.match(line)]
    if len(found) > 1:
        raise ValueError(f"lines {found[0]} and {found[1]} both say build-flags: keep one")
    return found[0] if found else None


def build_flags(source: str, flag_choices: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The compiler flags a source picks, a word each; see :func:`picked_flags`.

    Raises:
        ValueError: As there.
    """
    return _words(picked_flags(source, flag_choices))


def picked_flags(source: str, flag_choices: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The alternatives a source picks in its ``// build-flags:`` line: one of each group, in their order.

    A group the line does not mention gives its empty alternative where it has one, else its first. A source without
    the line picks every group's first.

    Args:
        source: The candidate's text.
        flag_choices: Groups of alternatives, for instance ``[["-O3", "-O2"], ["", "-funroll-loops"]]``. An
            alternative may be several words.

    Raises:
        ValueError: A flag that is no alternative, two of one group, or two lines; one line that names the flag.
    """
    number = flags_line(source)
    if number is None:
        return tuple(group[0] for group in flag_choices)
    match = _FLAGS_LINE.match(_lines(source)[number - 1])
    left = match.group(1).split() if match else []
    picked = tuple(_pick(group, left) for group in flag_choices)
    if left:
        raise ValueError(_objection(left[0], number, flag_choices))
    return picked


def flags_comment(picked: Sequence[str], comment: str = "//") -> str:
    """The line that picks these alternatives."""
    return " ".join([f"{comment} build-flags:", *_words(picked)])


def _lines(source: str) -> list[str]:
    return [line.rstrip() for line in source.split("\n")]


def _marker(line: str, number: int) -> str | None:
    if "EVOLVE-BLOCK" not in line or not _MARKER_WORD.search(line):  # the former is quick, and nearly always true
        return None
    match = _MARKER.match(line)
    if not match or len(_MARKER_WORD.findall(line)) > 1:
        raise ValueError(f"line {number}: an EVOLVE-BLOCK marker must stand alone in a comment line")
    return match.group(1)


def _outside(source: str, blocks: tuple[Block, ...]) -> list[list[tuple[int, str]]]:
    """The numbered lines before, between and after the regions, marker lines included; blank ends of file dropped."""
    lines = list(enumerate(_lines(source), 1))
    while lines and not lines[-1][1]:
        lines.pop()
    edges = [0, *(edge for block in blocks for edge in (block.start_line, block.end_line - 1)), len(lines)]
    return [lines[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2)]


def _pick(group: Sequence[str], left: list[str]) -> str:
    """The alternative of ``group`` that ``left`` names, whose words are taken out of it."""
    for alternative in sorted(group, key=lambda words: -len(words.split())):
        words = alternative.split()
        if words and all(left.count(word) >= words.count(word) for word in words):
            for word in words:
                left.remove(word)
            return alternative
    return "" if "" in group else group[0]


def _objection(flag: str, number: int, flag_choices: Sequence[Sequence[str]]) -> str:
    for group in flag_choices:
        if any(flag in alternative.split() for alternative in group):
            choices = ", ".join(alternative or "nothing" for alternative in group)
            return f"line {number}: build-flags: {flag} is one too many: pick one of {choices}"
    choices = "; ".join(", ".join(filter(None, group)) for group in flag_choices)
    return f"line {number}: build-flags: {flag} is not among this task's choices ({choices or 'it has none'})"


def _words(alternatives: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for alternative in alternatives for word in alternative.split())
