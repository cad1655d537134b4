"""System calls that Python does not wrap. Each raises ``OSError`` named after the call."""

from __future__ import annotations

import ctypes
import os
from functools import cache

from evaluators.sandbox import syscalls

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000
MNT_DETACH = 0x2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 0x1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
_AT_FDCWD = -100

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x2008_0522

Argument = int | bytes | ctypes.Array[ctypes.c_char] | ctypes.c_void_p | None


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def call(name: str, *arguments: Argument) -> int:
    """Make the system call ``name``; integers are passed as ``long``, bytes and arrays by address."""
    number = syscalls.here()[name]
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = _libc().syscall(ctypes.c_long(number), *converted)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def flush_c_streams() -> None:
    """Write out what C code left in its output buffers."""
    _libc().fflush(None)


def prctl(option: int, value: int = 0) -> int:
    """Process control with one argument; the unused ones must be zero."""
    return call("prctl", option, value, 0, 0, 0)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount, bind or change the propagation of ``target``."""
    kind_bytes = None if kind is None else kind.encode()
    options_bytes = None if options is None else options.encode()
    call("mount", source.encode(), target.encode(), kind_bytes, flags, options_bytes)


def clone_mount(path: str) -> int:
    """A descriptor of a detached copy of the mounts at ``path``."""
    return call("open_tree", _AT_FDCWD, path.encode(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE)


def attach_mount(fd: int, target: str) -> None:
    """Attach what :func:`clone_mount` gave."""
    call("move_mount", fd, b"", _AT_FDCWD, target.encode(), MOVE_MOUNT_F_EMPTY_PATH)


def restrict_mount(path: str, attributes: int) -> None:
    """Add ``MOUNT_ATTR_*`` to the mount at ``path`` and to all below it."""
    call("mount_setattr", _AT_FDCWD, path.encode(), AT_RECURSIVE, *_mount_attr(attributes))


def restrict_mount_fd(fd: int, attributes: int) -> None:
    """Add ``MOUNT_ATTR_*`` to a detached mount and to all below it."""
    call("mount_setattr", fd, b"", AT_RECURSIVE | AT_EMPTY_PATH, *_mount_attr(attributes))


def drop_bounding_set() -> None:
    """No program started from here can ever gain a capability."""
    capability = 0
    while True:
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            return  # beyond the last capability, or not allowed to: no_new_privs holds either way
        capability += 1


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets (and with them the ambient one)."""
    call("capset", _CAPABILITY_VERSION_3.to_bytes(4, "little") + bytes(4), bytes(24))


def leave_session_keyring() -> None:
    """Take an empty session keyring in place of the judge's."""
    call("keyctl", _KEYCTL_JOIN_SESSION_KEYRING, None)


def _mount_attr(attributes: int) -> tuple[bytes, int]:
    """A ``struct mount_attr`` that only sets attributes, and its size."""
    attr = attributes.to_bytes(8, "little") + bytes(24)
    return attr, len(attr)
