"""What is asked of a model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal

from evolve.llm.settings import Effort, ModelName, ModelSettings


@dataclass(frozen=True)
class Message:
    """One turn of the conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True)
class Request:
    """One question to one model. Equal requests have equal ``digest``."""

    model: ModelName
    system: str
    """The stable prefix: equal for all proposals of a run with one operator, so that providers can cache it."""
    messages: tuple[Message, ...]
    """Ends with a ``user`` message."""
    max_output_tokens: int
    temperature: float | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None

    @classmethod
    def to(cls, settings: ModelSettings, system: str, *messages: Message) -> Request:
        """A request with a model's configured limits."""
        return cls(
            model=ModelName.parse(settings.name),
            system=system,
            messages=messages,
            max_output_tokens=settings.max_output_tokens,
            temperature=settings.temperature,
            effort=settings.effort,
            thinking_tokens=settings.thinking_tokens,
        )

    @property
    def digest(self) -> str:
        """SHA-256 over everything that is asked; no key is part of it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @cached_property
    def bytes(self) -> int:
        """UTF-8 bytes of all text sent."""
        return len(self.system.encode()) + sum(len(m.text.encode()) for m in self.messages)


@dataclass(frozen=True, order=True)
class CallKey:
    """Which call of a run this is. The same key is never paid for twice: a stored answer is given again instead."""

    number: int
    """The number of the program the answer is meant to become."""
    step: str
    """``propose``, ``continue-1``, ``mend``."""
