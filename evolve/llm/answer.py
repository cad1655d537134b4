"""What a model answered, and what it used up."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Finish(StrEnum):
    """Why the answer ended."""

    STOP = "stop"
    LENGTH = "length"
    """Truncated: the limit on output tokens was reached."""
    REFUSAL = "refusal"
    """The model, or the provider's filter, declined."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one request, disjoint: the sum of all fields but ``reasoning`` is what was processed."""

    input: int = 0
    """Neither read from nor written to the prompt cache."""
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0
    """Reasoning included."""
    reasoning: int = 0
    """Part of ``output``."""
    estimated: bool = False
    """The server did not say; counted by us from the text."""

    @property
    def total(self) -> int:
        """All tokens, in and out."""
        return self.input + self.cached_input + self.cache_write + self.output


@dataclass(frozen=True)
class Answer:
    """A whole answer. Whether it holds a usable program is for :mod:`evolve.edits` to say."""

    text: str
    finish: Finish
    usage: Usage
    reasoning: str = ""
    """The model's reasoning, where it is shown; never parsed for code."""
    reported_model: str = ""
    """What the server says it used; differs from what was asked where a router or proxy replaced it."""
    request_id: str = ""
    quirks: tuple[str, ...] = field(default=())
    """What had to be left out or renamed for this server, for people."""


def is_other_model(asked: str, reported: str) -> bool:
    """Whether the server names a model that is not the one asked for.

    A dated snapshot of the same model is not another one, nor is a name with a path in front.
    """
    plain, other = asked.rsplit("/", 1)[-1].lower(), reported.rsplit("/", 1)[-1].lower()
    return bool(other) and not other.startswith(plain) and not plain.startswith(other)
