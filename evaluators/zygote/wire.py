"""Messages between judge and zygote: a 4-byte length and JSON over a stream socketpair, descriptors beside them.

Both ends are trusted; no sandboxed process ever holds an end of this socket.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

_HEADER = struct.Struct(">I")
_MAX_DESCRIPTORS = 200


def send_message(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message; ``fds`` stay open here and are duplicated into the receiver."""
    body = json.dumps(message, separators=(",", ":")).encode()
    data = _HEADER.pack(len(body)) + body
    sent = socket.send_fds(sock, [data], list(fds)) if fds else sock.send(data)
    if sent < len(data):
        sock.sendall(data[sent:])


def receive_message(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors, which the caller now owns; ``None`` once the other end has closed.

    Raises:
        ConnectionError: the other end closed in the middle of a message.
    """
    header, fds = _receive_exactly(sock, _HEADER.size)
    if not header:
        return None
    body, more = _receive_exactly(sock, _HEADER.unpack(header)[0])
    return json.loads(body), fds + more


def _receive_exactly(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    data = bytearray()
    fds: list[int] = []
    while len(data) < size:
        part, received, _, _ = socket.recv_fds(sock, size - len(data), _MAX_DESCRIPTORS)
        fds += received
        if not part:
            for fd in fds:
                os.close(fd)
            if data:
                raise ConnectionError("the other end closed in the middle of a message")
            return b"", []
        data += part
    return bytes(data), fds
