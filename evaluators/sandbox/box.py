"""One child's sandbox: every layer put in force, in the one order in which they can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from evaluators.sandbox import identity, kernel, seccomp
from evaluators.sandbox.cgroups import ChildGroup
from evaluators.sandbox.landlock import Landlock
from evaluators.sandbox.limits import ChildLimits, Footprint, Role, apply_limits
from evaluators.sandbox.mounts import narrow_scratch
from evaluators.sandbox.report import LayerName
from evaluators.sandbox.states import LayerStates, layer


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
    states: LayerStates
    scratch: Path
    footprint: Footprint
    program: Callable[[Role, int], bytes]
    """The seccomp filter for a role and its process's own number."""
    user: tuple[int, int] | None
    """User and group to become."""
    ruleset: Ruleset | None
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
        states, request = self.states, self.request
        if self.group is not None:
            with layer(LayerName.MEMORY_CGROUP):
                self.group.join()
        if request.cpus is not None:
            os.sched_setaffinity(0, request.cpus)
        if request.role == "builder" and states.active(LayerName.MOUNT_NAMESPACE):
            with layer(LayerName.MOUNT_NAMESPACE):
                narrow_scratch(self.scratch, request.writable, request.readable)
        if states.active(LayerName.RESOURCE_LIMITS):
            with layer(LayerName.RESOURCE_LIMITS):
                apply_limits(request.role, request.limits, self.footprint)
        self._change_user()
        if self.ruleset is not None:
            with layer(LayerName.LANDLOCK):
                self.ruleset.landlock.restrict(self.ruleset.fd)
        close_all_but(keep)
        if states.active(LayerName.SECCOMP):
            program = self.program(request.role, os.getpid())
            with layer(LayerName.SECCOMP):
                seccomp.install(program)

    def _change_user(self) -> None:
        if self.user is not None:
            with layer(LayerName.OTHER_USER):
                identity.become(*self.user)
        elif self.states.active(LayerName.USER_NAMESPACE):
            with layer(LayerName.USER_NAMESPACE):
                # One of its own, where the kernel counts its processes apart from those of its siblings.
                kernel.call("unshare", kernel.CLONE_NEWUSER)
        with layer(LayerName.NO_NEW_PRIVILEGES):
            identity.disarm()


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor but 0, 1, 2 and those in ``keep``."""
    start = 3
    for fd in sorted(set(keep)):
        if fd > start:
            os.closerange(start, fd)
        start = max(start, fd + 1)
    kernel.call("close_range", start, 0xFFFF_FFFF, 0)
