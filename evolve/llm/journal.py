"""The seam to storage: every request is written down before it is sent and again when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from evolve.llm.answer import Answer, Usage
from evolve.llm.errors import Failure
from evolve.llm.request import CallKey, Request
from evolve.llm.settings import ModelName


@dataclass(frozen=True)
class CallStart:
    """Written before a request leaves. One record per request on the wire, so retries are records of their own."""

    key: CallKey
    attempt: int
    """1, 2, … within the key."""
    operator: str
    request: Request
    worst_usd: float | None
    """What it may cost at most; booked in place of the true cost if the process dies before ``finish``.
    ``None`` where the model has no price."""
    worst_tokens: int


@dataclass(frozen=True)
class CallEnd:
    """Written when the request is over, before anything is done with the answer. Exactly one of answer and failure."""

    answer: Answer | None
    failure: Failure | None
    usage: Usage
    """What it used, failed or not; ``usage.estimated`` says where it is our count."""
    cost_usd: float | None
    seconds: float

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.failure is None):
            raise ValueError("a call ends with an answer or with a failure")


@dataclass(frozen=True)
class StoredAnswer:
    """An answer from before a crash, or of a recorded run, with what a proposer has to know about it."""

    answer: Answer
    model: ModelName
    operator: str


class CallJournal(Protocol):
    """Where calls are written. Plain functions, each durable when it returns: cancellation must not tear them."""

    def recall(self, key: CallKey) -> StoredAnswer | None:
        """The stored answer of this call; ``None``: it must be asked."""
        ...

    def begin(self, start: CallStart) -> int:
        """Store that the request is about to leave.

        Returns:
            The record's number.
        """
        ...

    def finish(self, record: int, end: CallEnd) -> None:
        """Store how it ended and book its cost, in one transaction. Called exactly once per record."""
        ...


class MemoryJournal:
    """A journal that forgets: for tests, benchmarks and ``evolve prompt``."""

    def __init__(self) -> None:
        self.starts: list[CallStart] = []
        self.ends: dict[int, CallEnd] = {}
        self._answers: dict[CallKey, StoredAnswer] = {}

    def recall(self, key: CallKey) -> StoredAnswer | None:
        """See :class:`CallJournal`."""
        return self._answers.get(key)

    def begin(self, start: CallStart) -> int:
        """See :class:`CallJournal`."""
        self.starts.append(start)
        return len(self.starts) - 1

    def finish(self, record: int, end: CallEnd) -> None:
        """See :class:`CallJournal`."""
        if record in self.ends:
            raise ValueError(f"call {record} is already finished")
        self.ends[record] = end
        start = self.starts[record]
        if end.answer is not None:
            self._answers[start.key] = StoredAnswer(end.answer, start.request.model, start.operator)
