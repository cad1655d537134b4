"""What is stored of the talk with language models: frozen values, no SQL."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evaluators.task import Language


class CallStatus(StrEnum):
    """What became of a request."""

    OPEN = "open"
    """It left, and nothing is known of it yet. Counts with its worst case."""
    ANSWERED = "answered"
    FAILED = "failed"
    LOST = "lost"
    """The process died before it ended. Booked with its worst case."""


@dataclass(frozen=True)
class ModelRequest:
    """A request, written down before it leaves. Retries are requests of their own."""

    model: str
    """``provider/model``."""
    program: int
    """The number of the program that the answer is meant to become. With ``step`` it names one question."""
    step: str
    """``propose``, ``continue-1``, ``mend``."""
    operator: str
    digest: str
    """SHA-256 over everything that is asked."""
    system: str
    messages: str
    """JSON: ``[{"role": "user", "text": …}, …]``."""
    parameters: str
    """JSON: limits, temperature, effort."""
    worst_dollars: float | None
    """``None`` where the model has no price."""
    worst_tokens: int


@dataclass(frozen=True)
class ModelReply:
    """How a request ended, stored with its booking before anything is done with the answer."""

    status: CallStatus
    completion: str | None = None
    """The answer's text, where it is one."""
    reasoning: str = ""
    finish: str = ""
    """``stop``, ``length`` or ``refusal``."""
    failure: str = ""
    """The kind of failure."""
    scope: str = ""
    """How far it reaches."""
    message: str = ""
    """The failure in words, without keys."""
    http_status: int | None = None
    reported_model: str = ""
    request_id: str = ""
    quirks: tuple[str, ...] = ()
    tokens_in: int = 0
    """Neither read from nor written to the provider's cache."""
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_out: int = 0
    """Reasoning included."""
    tokens_reasoning: int = 0
    estimated: bool = False
    """Tokens are our own count."""
    dollars: float | None = None
    """``None`` where the model has no price."""
    wall_s: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.tokens_in + self.tokens_cached + self.tokens_cache_write + self.tokens_out


@dataclass(frozen=True)
class ModelCall:
    """A stored request, and how it ended."""

    id: int
    attempt: int
    """1, 2, … within the step, over crashes and resumes."""
    request: ModelRequest
    reply: ModelReply | None
    """``None`` while it is open."""
    created_at: float


@dataclass(frozen=True)
class Dialogue:
    """A proposal that is made in talk with a model: what it started from, written down before the first request.

    After a crash the dialogue is led again from here with the stored answers, so nothing is asked or paid for twice.
    """

    number: int
    """Of the program that it is meant to become."""
    proposer: str
    island: int
    parent: int
    inspirations: tuple[int, ...]
    language: Language
    operator: str
    model: str


@dataclass(frozen=True)
class Ending:
    """How a dialogue ended that became no program."""

    number: int
    outcome: str
    """The reason in one word."""
    message: str = ""
    """One line."""
    learnt: int = 0
    """From how many programs and endings its proposer had learnt before: the order in which it learns again."""


PROGRAM = "program"
"""The outcome of a dialogue whose program was stored."""


@dataclass(frozen=True)
class ModelSpending:
    """What one model cost with one operator."""

    model: str
    operator: str
    requests: int
    answers: int
    failures: int
    open: int
    """In flight, or cut off by a crash."""
    tokens_in: int
    """From the cache and into it included."""
    tokens_out: int
    dollars: float
    unpriced: int
    """Requests that used tokens of a model without a price: the dollars are not all."""
    estimated: int
    """Requests whose tokens are our own count."""
