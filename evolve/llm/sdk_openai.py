"""OpenAI's SDK: chat completions and responses, there and at every compatible server."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
import openai

from evolve.llm.provider import Endpoint
from evolve.llm.sdk import CONNECT_S, MOST_CONNECTIONS, HttpReply, SdkErrors


class OpenAISdk:
    """See :class:`~evolve.llm.sdk.Sdk`. Retries and deadlines are ours, so the SDK's own are off."""

    errors = SdkErrors(
        status=openai.APIStatusError,
        connection=openai.APIConnectionError,
        transport=httpx2.HTTPError,
        unconnected=(httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout),
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.key.reveal(),
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            http_client=openai.DefaultAsyncHttpxClient(limits=httpx2.Limits(max_connections=MOST_CONNECTIONS)),
        )
        # Looked up here: the SDK imports these parts on first use.
        self._chat: Any = self._client.chat.completions.with_streaming_response.create
        self._responses: Any = self._client.responses.with_streaming_response.create

    def open(self, body: dict[str, Any]) -> AbstractAsyncContextManager[HttpReply]:
        """See :class:`~evolve.llm.sdk.Sdk`."""
        create = self._responses if "input" in body else self._chat
        reply: AbstractAsyncContextManager[HttpReply] = create(**body)
        return reply

    async def close(self) -> None:
        """See :class:`~evolve.llm.sdk.Sdk`."""
        await self._client.close()
