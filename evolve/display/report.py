"""What a command has to say: once as data for ``--json``, once as lines and tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    right: frozenset[str] = frozenset()
    """Headings of the columns that are aligned to the right."""


@dataclass(frozen=True)
class Report:
    """One answer."""

    data: Mapping[str, object]
    """JSON-able: what ``--json`` prints."""
    parts: Sequence[str | Table] = field(default_factory=tuple)
    """What everybody else sees, from top to bottom. A text may have several lines."""


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Labels and what they stand for, aligned; pairs with an empty text are left out, further lines are indented."""
    pairs = [(label, text) for label, text in pairs if text]
    width = max((len(label) for label, _ in pairs), default=0) + 2
    indent = "\n" + " " * width
    return "\n".join(f"{label:<{width}}{text.replace(chr(10), indent)}" for label, text in pairs)
