"""What a stand-in model server is to do with a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

WireName = Literal["chat", "responses", "anthropic"]


class Fault(StrEnum):
    """What can go wrong with a model server, each as it looks on the wire."""

    RATE_LIMIT = "429"
    RATE_LIMIT_AFTER = "429 with Retry-After"
    SERVER_ERROR = "500"
    OVERLOADED = "529"
    HTML = "a proxy's page in place of JSON, status 200"
    HTML_502 = "a proxy's page with status 502"
    NOTHING = "the connection is closed without an answer"
    RESET = "reset mid-stream"
    ERROR_EVENT = "an error event mid-stream"
    CUT = "the stream ends properly, but without its end marker"
    SILENCE = "silence mid-stream"
    DRIP = "a stream that trickles and never ends"
    EXPIRED_KEY = "401, quoting the key"
    NO_CREDIT = "429 for a spent account"
    NO_SUCH_MODEL = "404"


@dataclass(frozen=True)
class Asked:
    """A request as the server got it."""

    number: int
    """1, 2, … in order of arrival."""
    wire: WireName
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def prompt(self) -> str:
        """The last user message's text."""
        turns = self.body.get("messages") or self.body.get("input") or []
        return str(turns[-1]["content"]) if turns else ""


@dataclass(frozen=True)
class Reply:
    """What to answer."""

    text: str = ""
    finish: Literal["stop", "length", "refusal"] = "stop"
    reasoning: str = ""
    fault: Fault | None = None
    """Happens in place of the answer, or half-way through it."""
    usage: bool = True
    """Whether tokens are counted for the client."""
    choices: bool = True
    """``False``: an empty list of choices, or no content at all."""
    model: str | None = None
    """The model the answer claims to be from; ``None``: the one asked for."""
    retry_after: str = "2"
    streamed: bool = True
    """``False``: one JSON body, whatever was asked for."""
    raw: tuple[int, Mapping[str, str], bytes] | None = None
    """Status, headers and body as they are sent, whatever else this says."""


Script = Callable[[Asked], Reply]
"""Decides on the reply to each request."""


@dataclass(frozen=True)
class Billed:
    """What the server would charge for one request."""

    asked: Asked
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    complete: bool
    """The whole answer left the server."""


def tokens(text: str) -> int:
    """The server's tokeniser: four characters make a token."""
    return -(-len(text) // 4)
