"""What a client of the protocol server sends, on its way to the SDK."""

from __future__ import annotations

import contextvars
import json
from types import TracebackType
from typing import Self

from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from evolve.database.codec import storable

Item = SessionMessage | Exception


class Incoming:
    """A stream of messages in which half of a character is replaced.

    The SDK's parser takes a message with one for no JSON, and never answers it: the client would wait for ever.
    """

    def __init__(self, inner: ReadStream[Item]) -> None:
        """``inner`` is the transport's."""
        self._inner = inner

    @property
    def last_context(self) -> contextvars.Context | None:
        """The sender's context, which the SDK restores where a stream has one."""
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> Item:
        """The next message."""
        return _whole(await self._inner.receive())

    async def aclose(self) -> None:
        """Close the transport's stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        return _whole(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _whole(item: Item) -> Item:
    """A message that the parser refused, read once more; what still is none stays refused."""
    if not isinstance(item, ValidationError):
        return item
    line = item.errors(include_url=False)[0]["input"]
    try:
        text = storable(json.dumps(json.loads(line), ensure_ascii=False))
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except (TypeError, ValueError, RecursionError):
        return item
