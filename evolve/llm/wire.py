"""What differs between the APIs: the body of a request, and how an answer is put together from events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from evolve.database.codec import storable
from evolve.llm.draft import Draft
from evolve.llm.quirks import Quirks
from evolve.llm.request import Request
from evolve.llm.sse import Event, MalformedStreamError

_MOST_TOKENS = 10**8
"""Of one request: far more than any model takes, and little enough for sums to fit a database's integers."""


class Wire(Protocol):
    """One API's format. Stateless."""

    optional: frozenset[str]
    """Parameters of the body that a request can do without, or name otherwise."""

    def body(self, request: Request, quirks: Quirks) -> dict[str, Any]:
        """The JSON body that asks this."""
        ...

    def absorb(self, draft: Draft, event: Event) -> None:
        """Add one event of a stream.

        Raises:
            MalformedStreamError: it is not what this API sends.
        """
        ...

    def absorb_whole(self, draft: Draft, body: Mapping[str, Any]) -> None:
        """Add an answer that came in one piece, not as a stream."""
        ...


def parse_object(data: str) -> Mapping[str, Any]:
    """A JSON object, or nothing else.

    Raises:
        MalformedStreamError: it is something else.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, thousands of brackets
        raise MalformedStreamError("an event that is not JSON") from None
    if not isinstance(value, dict):
        raise MalformedStreamError("an event that is not a JSON object")
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one: servers leave out or null what they do not have."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list, if it is one."""
    return [mapping(v) for v in value] if isinstance(value, list) else []


def text(value: object) -> str:
    """The value if it is a string; the texts in it if it is a list of content parts; else empty.

    Everything that a server says comes in here: from here on it can be encoded, stored and sent back.
    """
    if isinstance(value, str):
        return storable(value)
    if value is None:
        return ""
    # A tuple: what a server gives as a type need not be hashable.
    return "".join(text(part.get("text")) for part in items(value) if part.get("type") in ("text", "output_text"))


def count(value: object) -> int | None:
    """A token count; ``None`` where it is absent or absurd."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None


def limited(request: Request, quirks: Quirks) -> int:
    """The output limit to send: what is wanted, within what the server was found to take."""
    return min(request.max_output_tokens, quirks.max_output_tokens or request.max_output_tokens)
