"""Messages between the search and its judge: 4-byte big-endian length, then UTF-8 JSON. Both ends are trusted."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

LENGTH = struct.Struct(">I")
MAX_MESSAGE = 64 << 20

Message = dict[str, Any]


def pack(message: Message) -> bytes:
    """The bytes of one message."""
    body = json.dumps(message).encode()
    if len(body) > MAX_MESSAGE:
        raise ValueError(f"message of {len(body)} bytes is over the cap of {MAX_MESSAGE}")
    return LENGTH.pack(len(body)) + body


def read(sock: socket.socket) -> Message | None:
    """The next message of a blocking socket; ``None`` at its end."""
    head = _exactly(sock, LENGTH.size)
    if head is None:
        return None
    body = _exactly(sock, LENGTH.unpack(head)[0])
    if body is None:
        return None
    message: Message = json.loads(body)
    return message


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = sock.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
