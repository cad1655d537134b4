"""Network: no socket of any kind can be made, and the one that the judge passed leads to the judge only."""

from __future__ import annotations

import socket

import pytest

from evaluators.zygote.client import Zygote
from tests.evaluators.sandbox_support import refusal, run

ROLES = ["runner", "builder"]
KINDS = {
    "tcp": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "tcp6": "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "unix": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
    "unix datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "vsock": "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    "pair": "socket.socketpair()",
    "name server": "socket.create_connection(('localhost', 80))",
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", list(KINDS))
def test_no_socket_can_be_made(zygote: Zygote, kind: str, role: str) -> None:
    assert refusal(zygote, f"import socket; {KINDS[kind]}", role) in {"PermissionError", "gaierror"}


def test_a_passed_channel_works_and_cannot_be_redirected(zygote: Zygote) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = """
    import socket
    channel = socket.socket(fileno=fds["channel"])
    channel.send(channel.recv(100).upper())
    for attempt in (
        lambda: channel.sendto(b"x", b"\\0somewhere"),
        lambda: channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"\\0" * 4)]),
        lambda: channel.connect(b"\\0somewhere"),
        lambda: channel.bind(b"\\0somewhere"),
    ):
        try:
            attempt()
        except PermissionError:
            continue
        print("not refused")
    print("end")
    """
    with ours, theirs:
        ours.send(b"hello")
        outcome = run(zygote, code, fds={"channel": theirs.fileno()})
        theirs.close()
        assert outcome.text == "end\n"
        assert ours.recv(100) == b"HELLO"
        assert ours.recv(100) == b""
