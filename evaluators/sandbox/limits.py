"""The resource limits of one child, enforced by the kernel process by process."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Role = Literal["runner", "builder"]

THREADS = 512
"""What a runner may start beside its first thread."""

_STACK_BYTES = 8 << 20
_ARENA_BYTES = 128 << 20
"""Address space glibc's malloc reserves for each thread's arena, most of it never used."""
_DESCRIPTORS: dict[Role, int] = {"runner": 256, "builder": 1024}


@dataclass(frozen=True)
class ChildLimits:
    """What one child may use. The kernel enforces each; wall-clock deadlines are the judge's."""

    memory_bytes: int
    """Beyond what the zygote itself maps. Counts the buffers that the judge has the child map: add them."""
    cpu_s: float
    """Processor seconds of each process, rounded up to whole seconds; then SIGKILL."""
    file_bytes: int
    """Largest file the child may write; runners: 0."""
    processes: int
    """Processes and threads a builder may start, in all; runners: 0, they start threads only."""

    def tasks(self, role: Role) -> int:
        """How many threads and processes the child may have, itself included."""
        return (THREADS if role == "runner" else self.processes) + 1


@dataclass(frozen=True)
class Footprint:
    """What the zygote itself maps; every child starts with it."""

    address_space_bytes: int
    data_bytes: int

    @classmethod
    def of_this_process(cls) -> Footprint:
        """As ``/proc`` says now."""
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = [int(word) for word in file.read().split()]
        return cls(pages[0] * resource.getpagesize(), pages[5] * resource.getpagesize())


def limit_table(
    role: Role, limits: ChildLimits, base: Footprint, threads: int, *, gpu: bool = False
) -> list[tuple[int, int]]:
    """The kernel's limits for one child: which, and how much. Never more than this process may itself have.

    Private memory is what ``RLIMIT_DATA`` counts; ``RLIMIT_AS`` also bounds shared mappings, with room for the arenas
    that malloc reserves for each of ``threads``. A GPU's driver reserves address space by the terabyte: with ``gpu``
    the control group alone bounds memory.
    """
    stacks = threads * _STACK_BYTES
    wanted = {
        resource.RLIMIT_DATA: base.data_bytes + limits.memory_bytes + stacks,
        resource.RLIMIT_AS: base.address_space_bytes + limits.memory_bytes + stacks + threads * _ARENA_BYTES,
        resource.RLIMIT_CPU: max(math.ceil(limits.cpu_s), 1),
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.tasks(role),
        resource.RLIMIT_NOFILE: _DESCRIPTORS[role],
        resource.RLIMIT_STACK: _STACK_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NICE: 0,
        resource.RLIMIT_RTPRIO: 0,
    }
    if gpu:
        del wanted[resource.RLIMIT_DATA], wanted[resource.RLIMIT_AS]
        wanted[resource.RLIMIT_NOFILE] = _DESCRIPTORS["builder"]
    most = {kind: resource.getrlimit(kind)[1] for kind in wanted}
    return [(k, v if most[k] == resource.RLIM_INFINITY else min(v, most[k])) for k, v in wanted.items()]


def apply_limits(table: Iterable[tuple[int, int]]) -> None:
    """Limit this process, hard and soft alike: nothing is left to raise.

    The processor's limit then kills at once; the init of a pid namespace would ignore the warning that comes first.
    """
    for kind, value in table:
        resource.setrlimit(kind, (value, value))
