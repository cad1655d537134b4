"""A provider's official SDK, reduced to what is used of it: sending a request and reading the answer's bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from evolve.llm.provider import Endpoint

CONNECT_S = 10.0
MOST_CONNECTIONS = 1000


class HttpReply(Protocol):
    """What both SDKs give of a response whose body is still to be read."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Response headers."""
        ...

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        ...


class Sdk(Protocol):
    """A provider's official client, reduced to what is used of it."""

    def open(self, body: dict[str, Any]) -> AbstractAsyncContextManager[HttpReply]:
        """Send the request; entering waits for the response's head."""
        ...

    @property
    def errors(self) -> SdkErrors:
        """The exceptions it may raise."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


@dataclass(frozen=True)
class SdkErrors:
    """An SDK's exception types, by meaning."""

    status: type[Exception]
    """The server answered with an error status."""
    connection: type[Exception]
    """It did not answer."""
    transport: type[Exception]
    """The HTTP library's own, which leak out while a body is read."""
    unconnected: tuple[type[Exception], ...]
    """Those of them that mean that nothing was sent."""


def connect(endpoint: Endpoint) -> Sdk:
    """A client of the endpoint's provider. The SDK is imported here: it takes seconds, and not every run needs it."""
    if endpoint.wire == "anthropic":
        from evolve.llm.sdk_anthropic import AnthropicSdk  # noqa: PLC0415

        return AnthropicSdk(endpoint)
    from evolve.llm.sdk_openai import OpenAISdk  # noqa: PLC0415

    return OpenAISdk(endpoint)
