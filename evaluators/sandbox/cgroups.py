"""The control group layers: memory and number of tasks of a whole child, compilers and shared mappings included.

Best effort: they need a writable hierarchy (version 1 or 2), which ordinary users rarely have. Each zygote has a parent
group of its own, and each child a fresh group in it, so that nothing a child leaves behind is charged to the next.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "kernel-evolve-"
_SLACK_BYTES = 32 << 20
"""For what a child copies of the zygote's own memory, and for page tables."""


@dataclass(frozen=True)
class Hierarchy:
    """Where this process may make groups, and what they can limit."""

    version: int
    base: Path
    controllers: frozenset[str]


def find_hierarchies(wanted: Iterable[str], mountinfo: str, cgroup: str) -> list[Hierarchy]:
    """Where groups for the wanted controllers (``memory``, ``pids``) belong; a controller without a place is left out.

    Version 1: below this process's own group. Version 2: beside it, because there a group that holds processes cannot
    hand controllers on; directly below the root where this process is in the root.

    Args:
        wanted: controllers by name.
        mountinfo: the content of ``/proc/self/mountinfo``.
        cgroup: the content of ``/proc/self/cgroup``.
    """
    own = {names: path for _, names, path in (row.split(":", 2) for row in cgroup.splitlines())}
    found: list[Hierarchy] = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split(maxsplit=2)
        if kind == "cgroup":
            here = frozenset(wanted) & frozenset(options.split(","))
            path = next((path for names, path in own.items() if here and here <= set(names.split(","))), None)
            if path is not None:
                found.append(Hierarchy(1, _inside(Path(point), root, path), here))
        elif kind == "cgroup2":
            base = _inside(Path(point), root, own.get("", "/"))
            base = base if base == Path(point) else base.parent
            with contextlib.suppress(OSError):
                here = frozenset(wanted) & frozenset((base / "cgroup.controllers").read_text().split())
                found += [Hierarchy(2, base, here)] if here else []
    return found


class Parent:
    """A zygote's own group, held open so that it can be used after the root has changed."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        """Make the group, named after this process, able to limit the groups in it.

        Raises:
            OSError: this process may not make one.
        """
        _remove_stale(hierarchy.base)
        self.controllers = hierarchy.controllers
        self._version = hierarchy.version
        self._base = os.open(hierarchy.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = f"{_PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{os.urandom(4).hex()}"
        os.mkdir(self._name, dir_fd=self._base)
        try:
            if self._version == 2:
                for controller in sorted(self.controllers):
                    (hierarchy.base / "cgroup.subtree_control").write_text(f"+{controller}")
                    (hierarchy.base / self._name / "cgroup.subtree_control").write_text(f"+{controller}")
            self._fd = os.open(self._name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._base)
        except OSError:
            os.rmdir(self._name, dir_fd=self._base)
            raise

    def remove_all(self) -> None:
        """Remove the group and those in it, as far as no process is left in them."""
        for name in _folders(self._fd):
            self.remove(name)
        with contextlib.suppress(OSError):
            os.rmdir(self._name, dir_fd=self._base)

    def make(self, name: str, memory_bytes: int, tasks: int) -> None:
        """Make a child's group with its limits.

        Raises:
            OSError: the kernel refused.
        """
        os.mkdir(name, dir_fd=self._fd)
        try:
            if "memory" in self.controllers:
                self._limit_memory(name, memory_bytes + _SLACK_BYTES)
            if "pids" in self.controllers:
                self._write(name, "pids.max", tasks)
        except OSError:
            self.remove(name)
            raise

    def join(self, name: str) -> None:
        """Put the calling process, which must have one thread only, into the group."""
        # Version 1 lets a thread move itself without taking the lock that stops every fork on the machine.
        self._write(name, "tasks" if self._version == 1 else "cgroup.procs", 0)

    def out_of_memory(self, name: str) -> bool:
        """Whether the kernel killed something in the group because it was full."""
        if "memory" not in self.controllers:
            return False
        file = "memory.oom_control" if self._version == 1 else "memory.events"
        fd = os.open(f"{name}/{file}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._fd)
        try:
            words = os.read(fd, 4096).split()
        finally:
            os.close(fd)
        return int(words[words.index(b"oom_kill") + 1]) > 0 if b"oom_kill" in words else False

    def remove(self, name: str) -> bool:
        """Remove a child's group; False while something is left in it."""
        try:
            os.rmdir(name, dir_fd=self._fd)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _limit_memory(self, name: str, limit: int) -> None:
        if self._version == 1:
            self._write(name, "memory.limit_in_bytes", limit)
            with contextlib.suppress(FileNotFoundError):  # absent without swap accounting
                self._write(name, "memory.memsw.limit_in_bytes", limit)
            return
        self._write(name, "memory.max", limit)
        self._write(name, "memory.oom.group", 1)
        with contextlib.suppress(FileNotFoundError):
            self._write(name, "memory.swap.max", 0)

    def _write(self, name: str, file: str, value: int) -> None:
        fd = os.open(f"{name}/{file}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._fd)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)


class ChildGroup:
    """One child's group in every hierarchy."""

    def __init__(self, parents: Sequence[Parent], name: str, memory_bytes: int, tasks: int) -> None:
        """Make the groups.

        Raises:
            OSError: the kernel refused; none is left.
        """
        self._parents = parents
        self._name = name
        try:
            for parent in parents:
                parent.make(name, memory_bytes, tasks)
        except OSError:
            self.remove()
            raise

    def join(self) -> None:
        """Put the calling process into them."""
        for parent in self._parents:
            parent.join(self._name)

    def out_of_memory(self) -> bool:
        """Whether the kernel killed something in them for memory."""
        return any(parent.out_of_memory(self._name) for parent in self._parents)

    def remove(self) -> bool:
        """Remove them; False while something is left in one."""
        removed = [parent.remove(self._name) for parent in self._parents]
        return all(removed)


def _remove_stale(base: Path) -> None:
    """Remove the parent groups of zygotes that are gone without having been able to clean up."""
    for parent in base.glob(f"{_PREFIX}*"):
        owner, started, _ = parent.name.removeprefix(_PREFIX).split("-")
        if _start_time(int(owner)) == started:
            continue
        for group in [*parent.glob("*/"), parent]:
            with contextlib.suppress(OSError):
                group.rmdir()


def _folders(fd: int) -> list[str]:
    with os.scandir(fd) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _start_time(pid: int) -> str:
    """When a process started, in the kernel's ticks: tells it from a later one of its number; "" for a dead one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    return "" if state in "ZX" else fields[18]


def _inside(point: Path, root: str, path: str) -> Path:
    inside = os.path.relpath(path, root)
    return point if inside == "." or inside.startswith("..") else point / inside
