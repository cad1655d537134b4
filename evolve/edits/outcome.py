"""What reading an answer can come to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tolerance(StrEnum):
    """What an answer got away with, because it could mean only one thing."""

    NO_FENCE = "no_fence"
    OPEN_FENCE = "open_fence"
    FENCED_PARTS = "fenced_parts"
    LINE_ENDS = "line_ends"
    """Carriage returns, or white space at line ends."""
    INDENTATION = "indentation"
    """The whole SEARCH text was indented by the same too much or too little."""
    TABS = "tabs"
    BLANK_EDGES = "blank_edges"
    LINE_NUMBERS = "line_numbers"
    UNIFIED_DIFF = "unified_diff"
    SEVERAL_BLOCKS = "several_blocks"
    """Of several code blocks one alone defines the entry."""
    REGION_ONLY = "region_only"
    """Only what may change was given, without the rest of the program."""
    NO_MARKERS = "no_markers"


class Reason(StrEnum):
    """Why an answer gives no program."""

    REFUSAL = "refusal"
    EMPTY = "empty"
    REASONING_ONLY = "reasoning_only"
    TRUNCATED = "truncated"
    NO_CODE = "no_code"
    SEVERAL_PROGRAMS = "several_programs"
    ELIDED = "elided"
    """Part of the program is left out: "... the rest is unchanged"."""
    MALFORMED_DIFF = "malformed_diff"
    EMPTY_SEARCH = "empty_search"
    NOT_FOUND = "not_found"
    AMBIGUOUS = "ambiguous"
    NO_OP = "no_op"
    OUTSIDE_BLOCK = "outside_block"
    """It changes what the task does not let change."""
    TOO_LARGE = "too_large"


HOLDS_KEY = "holds_key"
"""The outcome of a dialogue whose answers make up a key when they are put together; each is without one."""

REPAIRABLE = frozenset(
    {
        Reason.NO_CODE,
        Reason.SEVERAL_PROGRAMS,
        Reason.ELIDED,
        Reason.MALFORMED_DIFF,
        Reason.EMPTY_SEARCH,
        Reason.NOT_FOUND,
        Reason.AMBIGUOUS,
        Reason.NO_OP,
        Reason.OUTSIDE_BLOCK,
    }
)
"""Worth one more call that shows what did not fit."""

DECLINES = frozenset({Reason.REFUSAL, Reason.EMPTY, Reason.REASONING_ONLY})
"""The model did not try."""


@dataclass(frozen=True)
class Edited:
    """A new program."""

    source: str
    note: str
    """The answer's own words on the change; one line, data."""
    tolerated: frozenset[Tolerance] = frozenset()

    @property
    def words(self) -> str:
        """Everything in it that the answers said and that is stored."""
        return f"{self.source}\n{self.note}"


@dataclass(frozen=True)
class Unusable:
    """No program, and why."""

    reason: Reason
    message: str
    """One line."""
    search: str = ""
    """The SEARCH text that does not fit, as the model wrote it."""
    closest: str = ""
    """What the program has at the place most like it."""

    @property
    def words(self) -> str:
        """Everything in it that the answers said and that is stored."""
        return self.message

    @property
    def repairable(self) -> bool:
        """Worth one more call."""
        return self.reason in REPAIRABLE


class Unfit(Exception):
    """Carries an :class:`Unusable` out of the depths of this package; never leaves it."""

    def __init__(self, reason: Reason, message: str, search: str = "", closest: str = "") -> None:
        super().__init__(message)
        self.unusable = Unusable(reason, message, search, closest)
