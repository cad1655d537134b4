"""The layers around who a child is: a user of its own, no capabilities, no way to gain any."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from evaluators.sandbox import kernel

# Numbers that no distribution hands out (see systemd's "Users, Groups, UIDs and GIDs"); the second block is for
# containers that map only 65536 of them, the last for those that map next to nothing.
_BLOCKS = ((1_900_000_000, 4096, 16_384), (60_600, 512, 1), (65_534, 1, 1))
_CAP_SYS_ADMIN = 21


@dataclass
class Identities:
    """User numbers for children, handed out in turn so that one comes back only after all the others have.

    Two children that live at the same time differ, so that neither can signal the other, change the other's files, or
    use up its share of processes. The group is one for all: it is how a runner may read what a builder left.
    """

    base: int
    count: int
    _turn: Iterator[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._turn = itertools.cycle(range(self.base, self.base + self.count))

    @property
    def group(self) -> int:
        """The children's common group."""
        return self.base

    def next(self) -> int:
        """The next child's user."""
        return next(self._turn)


def choose_identities(uid_map: str, gid_map: str, salt: int) -> Identities | None:
    """A block of user numbers that exists in this user namespace; ``None`` where there is none but our own.

    Args:
        uid_map: the content of ``/proc/self/uid_map``.
        gid_map: the content of ``/proc/self/gid_map``.
        salt: judges of different salt get different blocks where there is room.
    """
    users, groups = _spans(uid_map), _spans(gid_map)
    for start, count, blocks in _BLOCKS:
        base = start + salt % blocks * count
        if _covers(users, base, count) and _covers(groups, base, 1):
            return Identities(base, count)
    return None


def is_administrator() -> bool:
    """Whether this process is root with the right to make namespaces (a container's root often is not)."""
    with open("/proc/self/status", encoding="ascii") as lines:
        effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return os.geteuid() == 0 and bool(effective >> _CAP_SYS_ADMIN & 1)


def become(user: int, group: int) -> None:
    """Take another user and group for good. The kernel clears the capabilities.

    The zygote has given up its supplementary groups before.
    """
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def disarm(*, observed: bool = False) -> None:
    """Drop what is left of capabilities, die with the zygote, and be closed to debuggers of the same user.

    After :func:`become`: a change of user clears the parent-death signal.

    Args:
        observed: stay open to them. Where every child is of one user, the judge could not see where it is otherwise.
    """
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)
    kernel.prctl(kernel.PR_SET_DUMPABLE, int(observed))


def _spans(id_map: str) -> list[tuple[int, int]]:
    rows = (line.split() for line in id_map.splitlines())
    return [(int(row[0]), int(row[2])) for row in rows if row]


def _covers(spans: list[tuple[int, int]], base: int, count: int) -> bool:
    return any(start <= base and base + count <= start + length for start, length in spans)
