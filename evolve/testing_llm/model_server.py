"""A model server on loopback that speaks OpenAI's and Anthropic's wire formats, and misbehaves on request."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from evolve.testing_llm import wires
from evolve.testing_llm.replies import Asked, Billed, Fault, Reply, Script, WireName, tokens

_PATHS: dict[str, WireName] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}
_BACKLOG = 1024
"""Connections that may wait to be accepted; beyond it the kernel drops them, and they try again after a second."""
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>nginx</h1></center></body></html>"


@dataclass(frozen=True)
class Manners:
    """How the server treats all requests."""

    key: str = "sk-test-0123456789abcdef"
    refuses: Collection[str] = ()
    """Parameters it does not take, and ``system`` for the role."""
    dialect: str = "openai"
    """How it words a refused parameter: ``openai``, or ``pydantic`` as servers built on FastAPI do."""
    drip_s: float = 0.01
    """Between two pieces of a stream that trickles."""
    piece_s: float = 0.0
    """Between two pieces of an ordinary stream."""


class ModelServer:
    """An async context manager; inside it the server listens.

    Attributes:
        asked: every request that reached it with a valid body.
        billed: what it would charge, one entry per request on which a model worked.
    """

    def __init__(self, script: Script, manners: Manners | None = None) -> None:
        self._script = script
        self._manners = manners or Manners()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: list[Asked] = []
        self.billed: list[Billed] = []
        self.url = ""

    @property
    def openai_url(self) -> str:
        """``base_url`` for OpenAI's SDK."""
        return f"{self.url}/v1"

    @property
    def key(self) -> str:
        """The only key it accepts."""
        return self._manners.key

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=_BACKLOG)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client is gone, or the server ends
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        path = head[0].split(" ")[1].partition("?")[0]
        if path not in _PATHS:
            return await _send(writer, 404, {"detail": "Not Found"})
        asked = Asked(len(self.asked) + 1, _PATHS[path], json.loads(raw), headers)
        self.asked.append(asked)
        if (refused := self._refuse(asked)) is not None:
            return await _send(writer, *refused)
        return await self._answer(asked, self._script(asked), reader, writer)

    def _refuse(self, asked: Asked) -> tuple[int, dict[str, Any]] | None:
        """What a real server checks before a model sees anything."""
        key = self._manners.key
        if asked.headers.get("authorization") != f"Bearer {key}" and asked.headers.get("x-api-key") != key:
            return 401, wires.error(asked, "authentication_error", "invalid x-api-key", code="invalid_api_key")
        if asked.wire == "anthropic" and not {"max_tokens", "messages", "model"} <= asked.body.keys():
            return 400, wires.error(asked, "invalid_request_error", "max_tokens: Field required")
        for name in self._manners.refuses:
            if name in asked.body:
                return self._refusal(asked, name)
        roles = [turn.get("role") for turn in asked.body.get("messages", ())]
        if "system" in self._manners.refuses and "system" in roles:
            text = "Unsupported value: 'messages[0].role' does not support 'system' with this model."
            return 400, wires.error(asked, "invalid_request_error", text, "messages[0].role", "unsupported_value")
        return None

    def _refusal(self, asked: Asked, name: str) -> tuple[int, dict[str, Any]]:
        if self._manners.dialect == "pydantic":
            detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
            return 422, {"detail": detail}
        if asked.wire == "anthropic":
            return 400, wires.error(asked, "invalid_request_error", f"{name}: Extra inputs are not permitted")
        text = f"Unsupported parameter: '{name}' is not supported with this model."
        return 400, wires.error(asked, "invalid_request_error", text, name, "unsupported_parameter")

    async def _answer(
        self, asked: Asked, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if reply.raw is not None:
            status, headers, data = reply.raw
            return await _send_bytes(writer, status, {"content-type": "application/json", **headers}, data)
        if (fault := _instead(asked, reply, self._manners.key)) is not None:
            return await _send(writer, *fault)
        if reply.fault is Fault.NOTHING:
            return False
        if not reply.streamed or not asked.body.get("stream"):
            self._bill(asked, reply, 1.0)
            return await _send(writer, 200, wires.whole(asked, reply))
        return await self._stream(asked, reply, reader, writer)

    async def _stream(
        self, asked: Asked, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        events = list(wires.stream(asked, reply))
        upto = len(events) // 2 if reply.fault is not None else len(events)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for event in events[:upto]:
            writer.write(_chunk(event))
            if self._manners.piece_s:
                await asyncio.sleep(self._manners.piece_s)
        await writer.drain()
        self._bill(asked, reply, upto / len(events))
        if reply.fault is None:
            writer.write(_chunk(b""))
            await writer.drain()
            return True
        return await self._spoil(asked, reply.fault, reader, writer)

    async def _spoil(
        self, asked: Asked, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Go wrong half-way through a stream. The connection is of no more use afterwards."""
        if fault is Fault.RESET:
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            writer.transport.abort()
        elif fault is Fault.ERROR_EVENT:
            writer.write(_chunk(wires.error_event(asked)) + _chunk(b""))
            await writer.drain()
        elif fault is Fault.CUT:
            writer.write(_chunk(b""))
            await writer.drain()
        elif fault is Fault.SILENCE:
            await reader.read()
        elif fault is Fault.DRIP:
            while True:
                writer.write(_chunk(b": still here\n\n"))
                await writer.drain()
                await asyncio.sleep(self._manners.drip_s)
        return False

    def _bill(self, asked: Asked, reply: Reply, share: float) -> None:
        output = tokens(reply.text) + tokens(reply.reasoning)
        self.billed.append(Billed(asked, wires.input_tokens(asked), 0, int(output * share), share == 1.0))


def _instead(asked: Asked, reply: Reply, key: str) -> tuple[int, dict[str, Any] | str, dict[str, str]] | None:
    """The faults that come in place of an answer: status, body, headers."""

    def made(
        status: int, kind: str, message: str, code: str | None = None
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        return status, wires.error(asked, kind, message, code=code), {}

    model = asked.body["model"]
    if reply.fault is Fault.RATE_LIMIT_AFTER:
        status, body, _ = made(429, "rate_limit_error", "Rate limit reached", "rate_limit_exceeded")
        return status, body, {"retry-after": reply.retry_after}
    table: dict[Fault, tuple[int, dict[str, Any] | str, dict[str, str]]] = {
        Fault.RATE_LIMIT: made(429, "rate_limit_error", "Rate limit reached", "rate_limit_exceeded"),
        Fault.SERVER_ERROR: made(500, "api_error", "Internal server error"),
        Fault.OVERLOADED: made(529, "overloaded_error", "Overloaded"),
        Fault.HTML: (200, _PAGE, {}),
        Fault.HTML_502: (502, _PAGE, {}),
        Fault.EXPIRED_KEY: made(401, "authentication_error", f"Incorrect API key provided: {key}. It has expired."),
        Fault.NO_CREDIT: made(429, "insufficient_quota", "You exceeded your current quota", "insufficient_quota"),
        Fault.NO_SUCH_MODEL: made(404, "not_found_error", f"The model `{model}` does not exist", "model_not_found"),
    }
    return None if reply.fault is None else table.get(reply.fault)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def _send(
    writer: asyncio.StreamWriter, status: int, body: dict[str, Any] | str, headers: dict[str, str] | None = None
) -> bool:
    """Answer in one piece; the connection stays open."""
    page = isinstance(body, str)
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    lines = {
        "content-type": "text/html; charset=utf-8" if page else "application/json",
        **(headers or {}),
    }
    return await _send_bytes(writer, status, lines, data)


async def _send_bytes(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], data: bytes) -> bool:
    head = "".join(f"{k}: {v}\r\n" for k, v in {**headers, "content-length": str(len(data))}.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + data)
    await writer.drain()
    return True
