"""Anthropic's SDK."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import anthropic
import httpx2

from evolve.llm.provider import Endpoint
from evolve.llm.sdk import CONNECT_S, MOST_CONNECTIONS, HttpReply, SdkErrors


class AnthropicSdk:
    """See :class:`~evolve.llm.sdk.Sdk`. Retries and deadlines are ours, so the SDK's own are off."""

    errors = SdkErrors(
        status=anthropic.APIStatusError,
        connection=anthropic.APIConnectionError,
        transport=httpx2.HTTPError,
        unconnected=(httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout),
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self._client = anthropic.AsyncAnthropic(
            api_key=endpoint.key.reveal(),
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            open_telemetry=False,
            http_client=anthropic.DefaultAsyncHttpxClient(limits=httpx2.Limits(max_connections=MOST_CONNECTIONS)),
        )
        # Looked up here: the SDK imports this part on first use.
        self._messages: Any = self._client.messages.with_streaming_response.create

    def open(self, body: dict[str, Any]) -> AbstractAsyncContextManager[HttpReply]:
        """See :class:`~evolve.llm.sdk.Sdk`."""
        reply: AbstractAsyncContextManager[HttpReply] = self._messages(**body)
        return reply

    async def close(self) -> None:
        """See :class:`~evolve.llm.sdk.Sdk`."""
        await self._client.close()
