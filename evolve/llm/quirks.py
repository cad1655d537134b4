"""What a server turned out not to take: learnt once from its own answer, then remembered per model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from typing import Literal

from evolve.llm.settings import ModelName

_LEARNABLE_STATUSES = frozenset({400, 403, 404, 422})
_TOO_MANY = re.compile(r"max_(?:completion_|output_)?tokens\b\D{0,40}?(\d+)\s*>\s*(\d+)")
_AT_MOST = re.compile(r"supports at most (\d+) (?:completion|output) tokens")


@dataclass(frozen=True)
class Quirks:
    """How a model's server differs from the ordinary. The defaults are the ordinary."""

    token_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    temperature: bool = True
    effort: bool = True
    thinking: Literal["adaptive", "enabled", "none"] | None = None
    """Anthropic: the kind of thinking that is accepted; ``None``: as asked."""
    system: Literal["system", "user"] = "system"
    """``user``: no system role; the text goes in front of the first user message."""
    stream: bool = True
    stream_options: bool = True
    cache_control: bool = True
    max_output_tokens: int | None = None
    """The server's own limit."""
    responses_api: bool = False
    """OpenAI: the model is served by the Responses API only."""
    no_usage: bool = False
    """The server does not count tokens; we estimate."""

    def notes(self) -> tuple[str, ...]:
        """What differs from the ordinary, as ``name=value``."""
        ordinary = Quirks()
        return tuple(
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(ordinary, f.name)
        )


class QuirkBook:
    """The quirks of every model, kept for the life of the process."""

    def __init__(self) -> None:
        self._known: dict[ModelName, Quirks] = {}

    def of(self, model: ModelName) -> Quirks:
        """What is known of a model."""
        return self._known.get(model, Quirks())

    def remember(self, model: ModelName, quirks: Quirks) -> None:
        """Use these from now on."""
        self._known[model] = quirks


@dataclass(frozen=True)
class Complaint:
    """A server's error answer, taken apart."""

    status: int
    message: str
    param: str = ""
    code: str = ""


def lesson(complaint: Complaint, optional: Collection[str], quirks: Quirks) -> Quirks | None:
    """What to do otherwise, when a request was refused because of one of its parameters.

    Args:
        complaint: the server's words.
        optional: the parameters of the refused request that it could do without, or name otherwise.
        quirks: those with which it was made.

    Returns:
        Other quirks to ask again with, or ``None`` when the complaint is about something else.
    """
    if complaint.status not in _LEARNABLE_STATUSES:
        return None
    text = complaint.message
    if complaint.status == 404:
        return replace(quirks, responses_api=True) if "v1/responses" in text and not quirks.responses_api else None
    if (limit := _output_limit(text)) is not None:
        smaller = quirks.max_output_tokens is None or limit < quirks.max_output_tokens
        return replace(quirks, max_output_tokens=limit) if smaller else None
    for parameter, (aliases, without) in _LADDERS.items():
        if parameter in optional and any(_blames(complaint, name) for name in (parameter, *aliases)):
            return without(quirks, text)
    return _structural_lesson(complaint, quirks)


def _structural_lesson(complaint: Complaint, quirks: Quirks) -> Quirks | None:
    """Complaints about the shape of messages rather than about a parameter."""
    if quirks.system == "system" and _blames_system_role(complaint):
        return replace(quirks, system="user")
    if quirks.cache_control and re.search(r"\bcache_control\b", complaint.message):
        return replace(quirks, cache_control=False)
    return None


def _output_limit(text: str) -> int | None:
    if found := _TOO_MANY.search(text):
        return int(found[2])
    if found := _AT_MOST.search(text):
        return int(found[1])
    return None


def _blames(complaint: Complaint, parameter: str) -> bool:
    """The server names the parameter, in its own field or in words that speak of refusal."""
    if complaint.param.split(".")[0] == parameter:
        return True
    named = re.search(rf"(?<![\w.]){re.escape(parameter)}(?!\w)", complaint.message)
    return named is not None and _REFUSAL.search(complaint.message) is not None


_REFUSAL = re.compile(
    r"unsupported|not support|does not support|unrecognized|unknown|unexpected|not permitted|extra_forbidden"
    r"|not allowed|not available|deprecated|invalid (?:parameter|argument|field)|must be verified",
    re.IGNORECASE,
)


def _blames_system_role(complaint: Complaint) -> bool:
    text = complaint.message.lower()
    role = re.search(r"messages\W+0\W+(?:role|\.role)", (complaint.param + " " + text)) or "system role" in text
    return bool(role) and ("system" in text or "role" in complaint.param)


def _token_field(quirks: Quirks, _: str) -> Quirks:
    first = quirks.token_field == "max_completion_tokens"
    return replace(quirks, token_field="max_tokens" if first else "max_completion_tokens")


def _thinking(quirks: Quirks, text: str) -> Quirks:
    if quirks.thinking is None and "adaptive" in text and "enabled" in text:
        return replace(quirks, thinking="adaptive")
    if quirks.thinking is None and "adaptive" in text:
        return replace(quirks, thinking="enabled")
    return replace(quirks, thinking="none", effort=False)


_LADDERS: dict[str, tuple[tuple[str, ...], Callable[[Quirks, str], Quirks]]] = {
    "max_completion_tokens": ((), _token_field),
    "max_tokens": ((), _token_field),
    "temperature": ((), lambda q, _: replace(q, temperature=False)),
    "reasoning_effort": ((), lambda q, _: replace(q, effort=False)),
    "reasoning": ((), lambda q, _: replace(q, effort=False)),
    "thinking": ((), _thinking),
    "output_config": (("effort",), lambda q, _: replace(q, effort=False)),
    "stream_options": ((), lambda q, _: replace(q, stream_options=False)),
    "stream": ((), lambda q, _: replace(q, stream=False)),
}
"""Parameter -> other names that servers use for it, and what to do without it; in the order in which to look."""
