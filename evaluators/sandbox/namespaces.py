"""The namespace layers, entered once by the zygote and inherited by every child."""

from __future__ import annotations

import os
import socket
from pathlib import Path

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


def enter_user_namespace() -> None:
    """Enter a user namespace in which this user stays itself and may make the other namespaces.

    Raises:
        OSError: this host does not allow it to ordinary users.
    """
    user, group = os.geteuid(), os.getegid()
    kernel.call("unshare", kernel.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def enter_namespaces(without: frozenset[LayerName]) -> dict[LayerName, str | None]:
    """Enter each namespace that this host allows.

    Returns:
        For each, ``None`` where it was entered, else why not.
    """
    return {name: _enter(name, flags, without) for name, flags in _FLAGS.items()}


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
