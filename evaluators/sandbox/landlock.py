"""The Landlock layer: an allow-list of files by hierarchy, no TCP, no signals or abstract sockets beyond the sandbox.

Landlock does not stop stat, chmod, utime, or the use of what is already open: seccomp, the other user and the mount
namespace do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

from evaluators.sandbox import kernel

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_RESTRICT_SELF_LOG_SAME_EXEC_OFF = 1
"""From ABI 7: a candidate that tries doors all day must not fill the host's audit log."""
_NETWORK_RIGHTS = 0b11  # bind and connect TCP
_SCOPES = 0b11  # abstract unix sockets, signals


class Access(IntFlag):
    """Rights on files, by the kernel's numbers."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


LIST = Access.READ_DIR
READ = Access.READ_FILE | Access.READ_DIR
RUN = READ | Access.EXECUTE
DEVICE = Access.READ_FILE | Access.WRITE_FILE
GPU = DEVICE | Access.IOCTL_DEV
CHANGE = (
    RUN
    | Access.WRITE_FILE
    | Access.REMOVE_DIR
    | Access.REMOVE_FILE
    | Access.MAKE_DIR
    | Access.MAKE_REG
    | Access.MAKE_FIFO
    | Access.MAKE_SYM
    | Access.REFER
    | Access.TRUNCATE
)
_ON_FILES = Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
_HANDLED_FROM = ((1, (1 << 13) - 1), (2, Access.REFER), (3, Access.TRUNCATE), (5, Access.IOCTL_DEV))


def abi() -> int:
    """The kernel's Landlock ABI, 1 or more.

    Raises:
        OSError: there is no Landlock in this kernel, or it is switched off.
    """
    return kernel.call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)


@dataclass(frozen=True)
class Rule:
    """Rights beneath one file or folder, held open: neither a rename nor a mount changes what is meant."""

    fd: int
    access: Access


def open_rule(path: Path, access: Access) -> Rule:
    """A rule for ``path``; on anything but a folder only the rights that make sense there.

    Raises:
        OSError: there is no such path.
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        access &= _ON_FILES
    return Rule(fd, access)


class Landlock:
    """Rulesets for the ABI at hand."""

    def __init__(self, version: int, *, network: bool = True) -> None:
        """Find what the kernel can do; with ``network``, TCP is denied."""
        self.version = version
        self._handled = 0
        for since, rights in _HANDLED_FROM:
            if version >= since:
                self._handled |= rights
        denied = _NETWORK_RIGHTS if version >= 4 and network else 0
        scopes = _SCOPES if version >= 6 else 0
        words = 3 if version >= 6 else 2 if version >= 4 else 1
        attributes = struct.pack("=QQQ", self._handled, denied, scopes)[: 8 * words]
        self._attributes = ctypes.create_string_buffer(attributes, len(attributes))

    def ruleset(self, rules: Iterable[Rule]) -> int:
        """A descriptor of a ruleset that allows what the rules say and denies all else."""
        fd = kernel.call("landlock_create_ruleset", self._attributes, len(self._attributes), 0)
        try:
            for rule in rules:
                self.add(fd, rule)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def add(self, ruleset: int, rule: Rule) -> None:
        """Allow one thing more."""
        beneath = struct.pack("=Qi", int(rule.access) & self._handled, rule.fd)
        kernel.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, beneath, 0)

    def restrict(self, ruleset: int) -> None:
        """Bind this thread, and all it starts, to the ruleset for good. Needs no_new_privs."""
        quiet = _RESTRICT_SELF_LOG_SAME_EXEC_OFF if self.version >= 7 else 0
        kernel.call("landlock_restrict_self", ruleset, quiet)


def unavailable(error: OSError) -> str:
    """Why there is no Landlock, for people."""
    if error.errno == errno.EOPNOTSUPP:
        return "switched off at boot (add landlock to the lsm= kernel parameter)"
    if error.errno == errno.ENOSYS:
        return "this kernel has none"
    return str(error.strerror)
