"""The namespace layers, entered once by the zygote and inherited by every child."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct

from evaluators.sandbox import kernel
from evaluators.sandbox.report import LayerName

_FLAGS = {
    LayerName.MOUNT_NAMESPACE: kernel.CLONE_NEWNS,
    LayerName.NETWORK_NAMESPACE: kernel.CLONE_NEWNET,
    LayerName.IPC_NAMESPACE: kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS,
    LayerName.PID_NAMESPACE: kernel.CLONE_NEWPID,
}
"""In the order of entering. The pid namespace begins with the next fork."""
_HOST_NAME = "sandbox"
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1  # netdevice(7)


def enter_user_namespace() -> None:
    """Enter a user namespace in which this user stays itself and may make the other namespaces.

    Raises:
        OSError: this host does not allow it to ordinary users.
    """
    processes = open_processes()
    try:
        enter_own_user_namespace(processes)
    finally:
        os.close(processes)


def open_processes() -> int:
    """A descriptor of ``/proc``, for use where that is not in sight any more."""
    return os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def enter_own_user_namespace(processes: int) -> None:
    """The same, with a descriptor of ``/proc``.

    Without a map ``posix_spawn`` could not reset a program's user and group, as GNU make has it do.
    """
    user, group = os.geteuid(), os.getegid()
    kernel.call("unshare", kernel.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        fd = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=processes)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def enter_namespaces(without: frozenset[LayerName], *, loopback: bool = False) -> dict[LayerName, str | None]:
    """Enter each namespace that this host allows.

    Args:
        without: layers to leave out.
        loopback: bring up the loopback interface, which profilers of a GPU need; seccomp says who may use it.

    Returns:
        For each, ``None`` where it was entered, else why not.
    """
    entered = {name: _enter(name, flags, without) for name, flags in _FLAGS.items()}
    if loopback and entered[LayerName.NETWORK_NAMESPACE] is None:
        _raise_loopback()
    return entered


def _raise_loopback() -> None:
    """Without it profilers fail, and say so; nothing else does."""
    request = struct.pack("16sH22x", b"lo", _IFF_UP)
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, request)


def _enter(name: LayerName, flags: int, without: frozenset[LayerName]) -> str | None:
    if name in without:
        return "left out on request"
    try:
        kernel.call("unshare", flags)
        if flags & kernel.CLONE_NEWUTS:
            socket.sethostname(_HOST_NAME)
    except OSError as error:
        return f"{error.strerror}"
    return None
