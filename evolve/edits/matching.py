"""Where a SEARCH text stands in a program: by whole lines, exactly, or shifted by one uniform indentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evolve.edits.outcome import Tolerance

_TAB_WIDTHS = (4, 8, 2)


@dataclass(frozen=True)
class Match:
    """A place, and what the replacement has to go through to fit there."""

    start: int
    """First line; lines count from 0."""
    end: int
    """One past the last line."""
    fit: Callable[[Sequence[str]], list[str] | None]
    """Makes the replacement's lines fit; ``None`` where they cannot."""
    tolerated: frozenset[Tolerance]


def find(lines: Sequence[str], search: Sequence[str]) -> list[Match]:
    """All places where the search text stands, by the strictest reading that finds any.

    Args:
        lines: the program's.
        search: not empty, without blank lines at its ends.
    """
    exact = _windows(lines, search)
    if exact:
        return [_match(n, search, list) for n in exact]
    trimmed = _windows(_trimmed(lines), _trimmed(search))
    if trimmed:
        return [_match(n, search, list, Tolerance.LINE_ENDS) for n in trimmed]
    shifted = _shifted(lines, search)
    return shifted or _detabbed(lines, search)


def closest(lines: Sequence[str], search: Sequence[str], context: int = 3) -> str:
    """The program's lines most like the search text, for the model to look at; empty where nothing is."""
    wanted = {line.strip() for line in search if line.strip()}
    size = max(1, len(search))

    def likeness(start: int) -> int:
        return len(wanted & {line.strip() for line in lines[start : start + size]})

    best = max(range(max(1, len(lines) - size + 1)), key=likeness, default=0)
    if not wanted or likeness(best) == 0:
        return ""
    return "\n".join(lines[max(0, best - context) : best + size + context])


def _windows(lines: Sequence[str], search: Sequence[str]) -> list[int]:
    size, first, wanted = len(search), search[0], list(search)
    starts = (n for n, line in enumerate(lines) if line == first)
    return [n for n in starts if list(lines[n : n + size]) == wanted]


def _trimmed(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def _match(
    start: int, search: Sequence[str], fit: Callable[[Sequence[str]], list[str] | None], *how: Tolerance
) -> Match:
    return Match(start, start + len(search), fit, frozenset(how))


def _shifted(lines: Sequence[str], search: Sequence[str], *how: Tolerance) -> list[Match]:
    matches = []
    for start in range(len(lines) - len(search) + 1):
        shift = _shift(lines[start : start + len(search)], search)
        if shift is not None:
            matches.append(_match(start, search, _shifter(*shift), Tolerance.INDENTATION, *how))
    return matches


def _shift(window: Sequence[str], search: Sequence[str]) -> tuple[str, str] | None:
    """What to take away from and to put before each line of the search text to get the window; one for all lines."""
    shifts = set()
    for line, wanted in zip(window, search, strict=True):
        if line.strip() != wanted.strip():
            return None
        if not line.strip():
            continue
        have, want = _indent(line), _indent(wanted)
        if have.endswith(want):
            shifts.add(("", have.removesuffix(want)))
        elif want.endswith(have):
            shifts.add((want.removesuffix(have), ""))
        else:
            return None
    return shifts.pop() if len(shifts) == 1 else None


def _shifter(take: str, put: str) -> Callable[[Sequence[str]], list[str] | None]:
    def fit(replacement: Sequence[str]) -> list[str] | None:
        if any(line.strip() and not line.startswith(take) for line in replacement):
            return None
        return [put + line.removeprefix(take) if line.strip() else "" for line in replacement]

    return fit


def _detabbed(lines: Sequence[str], search: Sequence[str]) -> list[Match]:
    """Tabs in the answer where the program has none: widths are tried until one fits."""
    if not any("\t" in _indent(line) for line in search) or any("\t" in _indent(line) for line in lines):
        return []
    for width in _TAB_WIDTHS:
        spaced = [_spaced(line, width) for line in search]
        exact = _windows(_trimmed(lines), _trimmed(spaced))
        found = [_match(n, search, list) for n in exact] or _shifted(lines, spaced)
        if found:
            return [_after_spacing(match, width) for match in found]
    return []


def _after_spacing(match: Match, width: int) -> Match:
    inner = match.fit
    return Match(
        match.start,
        match.end,
        lambda r: inner([_spaced(line, width) for line in r]),
        match.tolerated | {Tolerance.TABS},
    )


def _spaced(line: str, width: int) -> str:
    indent = _indent(line)
    return indent.expandtabs(width) + line[len(indent) :]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
