"""One child's sandbox: every layer put in force, in the one order in which they can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators.sandbox import identity, kernel
from evaluators.sandbox.cgroups import ChildGroup
from evaluators.sandbox.landlock import READ, Access, Landlock, open_rule
from evaluators.sandbox.limits import ChildLimits, Role, apply_limits
from evaluators.sandbox.mounts import PROCESSES, narrow_scratch, show_own_processes
from evaluators.sandbox.namespaces import enter_own_user_namespace
from evaluators.sandbox.report import LayerName
from evaluators.sandbox.seccomp import Program
from evaluators.sandbox.states import LayerError


@dataclass(frozen=True)
class BoxRequest:
    """What one child may see and use."""

    name: str
    """Unique among the zygote's children."""
    role: Role
    limits: ChildLimits
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    packages: tuple[str, ...] = ()
    cpus: tuple[int, ...] | None = None
    nice: int = 0
    gpu: bool = False
    inspected: bool = False
    """It runs under a profiler or a sanitizer."""
    observed: bool = False
    """The judge may look at where it is. A child of a user of its own only root can look at, observed or not."""


@dataclass(frozen=True)
class Ruleset:
    """What Landlock will hold the child to."""

    landlock: Landlock
    fd: int
    shared: bool
    """Kept by the zygote for other children."""


@dataclass(frozen=True)
class Box:
    """One child's sandbox: prepared in the zygote, closed in the child."""

    request: BoxRequest
    scratch: Path
    limits: Sequence[tuple[int, int]]
    """Resource limits: which, and how much."""
    own_mounts: bool
    """Show it of the scratch folder only what its request names."""
    processes: int | None
    """Where there is no other user to become, a descriptor of ``/proc``: it gets a user namespace of its own, in which
    the kernel counts its processes apart."""
    user: tuple[int, int] | None
    """User and group to become."""
    ruleset: Ruleset | None
    program: Callable[[], Program] | None
    """The seccomp filter for the process that calls this."""
    group: ChildGroup | None

    def release(self) -> None:
        """In the zygote, after the fork: give back what only the child needs."""
        if self.ruleset is not None and not self.ruleset.shared:
            os.close(self.ruleset.fd)

    def close(self, keep: Iterable[int]) -> None:
        """In the child: put every layer in force, for good. Needs a process of one thread.

        Args:
            keep: the only descriptors that stay open beside 0, 1 and 2.

        Raises:
            LayerError: a layer failed; the child must end.
            OSError: it could not be bound to its processors.
        """
        if self.request.cpus is not None:
            os.sched_setaffinity(0, self.request.cpus)
        os.nice(self.request.nice)
        step = LayerName.MEMORY_CGROUP
        try:
            if self.group is not None:
                self.group.join()
            step = LayerName.MOUNT_NAMESPACE
            if self.own_mounts:
                narrow_scratch(self.scratch, self.request.writable, self.request.readable)
                if self.request.gpu:
                    show_own_processes()
            step = LayerName.RESOURCE_LIMITS
            apply_limits(self.limits)
            step = LayerName.OTHER_USER
            if self.user is not None:
                identity.become(*self.user)
            step = LayerName.USER_NAMESPACE
            if self.processes is not None:
                enter_own_user_namespace(self.processes)
            step = LayerName.NO_NEW_PRIVILEGES
            identity.disarm(observed=self.request.observed and self.user is None)
            step = LayerName.LANDLOCK
            if self.ruleset is not None:
                if self.request.gpu:
                    self._allow_own_processes(self.ruleset)
                self.ruleset.landlock.restrict(self.ruleset.fd)
            close_all_but(keep)
            step = LayerName.SECCOMP
            if self.program is not None:
                self.program().install()
        except OSError as error:
            raise LayerError(step, str(error.strerror or error)) from error

    def _allow_own_processes(self, ruleset: Ruleset) -> None:
        """The driver reads what the kernel says of it and names its threads: its own ``/proc`` was not there before."""
        rule = open_rule(Path(PROCESSES), READ | Access.WRITE_FILE | Access.TRUNCATE)
        ruleset.landlock.add(ruleset.fd, rule)
        os.close(rule.fd)


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor but 0, 1, 2 and those in ``keep``."""
    start = 3
    for fd in sorted(set(keep)):
        if fd > start:
            os.closerange(start, fd)
        start = max(start, fd + 1)
    kernel.call("close_range", start, 0xFFFF_FFFF, 0)
