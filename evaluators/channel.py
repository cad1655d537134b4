"""The binary frames between the judge and a runner.

Transport: an ``AF_UNIX``/``SOCK_SEQPACKET`` pair, so one packet is one frame: none can be split or glued. What a
runner sends is data from an enemy: fixed header, capped length, no code-carrying format. A frame that is malformed,
unexpected, early, late or repeated is a :class:`ProtocolViolation` and fails the candidate.

Header, little-endian, 16 bytes: kind (u8), failure (u8), reserved (u16, zero), slot (u32), nonce (u64); then up to
``MAX_BODY`` bytes. Every request carries a fresh random nonce that the answer must repeat, so that no answer can be
sent before its request was read.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

from evaluators.status import Status

HEADER = struct.Struct("<BBHIQ")
MAX_BODY = 16 << 10
PACKET_CAP = HEADER.size + MAX_BODY + 1
"""What a receiver reads at most: one byte more than the longest legal packet, so that a longer one shows."""


class Kind(IntEnum):
    """Frame kinds. Those below 16 go to the runner, the others come from it."""

    IMPORT = 1
    PREPARE = 2
    CALL = 3
    REPLAY = 4
    """On a GPU: the calls of one of the layout's sequences, as captured in PREPARE."""
    RECORD = 5
    """On a GPU, before IMPORT: begin to record what the device does."""
    READY = 16
    PREPARED = 17
    DONE = 18
    FAILED = 19


#: What a runner may say of itself. Each is a failing status: admitting a failure gains nothing.
ADMITTED: dict[int, Status] = {
    1: Status.BUILD_ERROR,
    2: Status.RUNTIME_ERROR,
    3: Status.WRONG_SHAPE,
    4: Status.WRONG_DTYPE,
    5: Status.OUT_OF_MEMORY,
    6: Status.REJECTED,
}
ADMISSION_CODES = {status: code for code, status in ADMITTED.items()}


class ProtocolViolation(Exception):
    """The runner sent something that the protocol does not allow here."""


class ChannelClosed(Exception):
    """The other end is gone."""


class DeadlineExceeded(Exception):
    """No frame came in time."""


@dataclass(frozen=True)
class Frame:
    """One decoded frame."""

    kind: Kind
    slot: int
    nonce: int
    failure: int = 0
    body: bytes = b""


def encode(frame: Frame) -> bytes:
    """The packet for a frame; raises ``ValueError`` if the body is over ``MAX_BODY``."""
    if len(frame.body) > MAX_BODY:
        raise ValueError(f"frame body of {len(frame.body)} bytes is over the cap of {MAX_BODY}")
    return HEADER.pack(frame.kind, frame.failure, 0, frame.slot, frame.nonce) + frame.body


def decode(packet: bytes) -> Frame:
    """The frame in a packet; raises :class:`ProtocolViolation` on anything malformed."""
    if len(packet) < HEADER.size:
        raise ProtocolViolation(f"frame of {len(packet)} bytes, shorter than its header")
    if len(packet) > HEADER.size + MAX_BODY:
        raise ProtocolViolation("frame longer than the cap")
    kind, failure, reserved, slot, nonce = HEADER.unpack_from(packet)
    if reserved != 0:
        raise ProtocolViolation("reserved field is not zero")
    try:
        known = Kind(kind)
    except ValueError:
        raise ProtocolViolation(f"unknown frame kind {kind}") from None
    return Frame(known, slot, nonce, failure, packet[HEADER.size :])


def pair() -> tuple[socket.socket, socket.socket]:
    """A connected channel: the judge's end and the runner's end."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def set_receive_deadline(sock: socket.socket, seconds: float) -> None:
    """Let the kernel end a blocking receive after ``seconds`` (cheaper in the timed loop than polling first)."""
    seconds = max(seconds, 1e-4)
    whole = int(seconds)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", whole, int((seconds - whole) * 1e6)))


def receive(sock: socket.socket) -> Frame:
    """The next frame, decoded. Raises one of this module's exceptions; the deadline is the socket's own."""
    try:
        packet = sock.recv(PACKET_CAP)
    except (BlockingIOError, InterruptedError, TimeoutError):
        raise DeadlineExceeded from None
    except ConnectionError:
        raise ChannelClosed from None
    if not packet:
        raise ChannelClosed
    return decode(packet)


def send(sock: socket.socket, packet: bytes) -> None:
    """Send one packet; a peer that is gone or does not read is reported, never waited for."""
    try:
        sock.send(packet, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except (BlockingIOError, TimeoutError):
        raise DeadlineExceeded from None
    except (ConnectionError, BrokenPipeError):
        raise ChannelClosed from None


def assert_quiet(sock: socket.socket) -> None:
    """Raise :class:`ProtocolViolation` if a frame lies there that nobody asked for."""
    try:
        packet = sock.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return
    except ConnectionError:
        raise ChannelClosed from None
    if not packet:
        raise ChannelClosed
    raise ProtocolViolation("a frame came before it was asked for")
