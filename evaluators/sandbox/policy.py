"""How the layers are put together: once for a zygote, and then over each child."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from evaluators.sandbox import landlock, seccomp
from evaluators.sandbox.box import Box, BoxRequest, Ruleset
from evaluators.sandbox.cgroups import ChildGroup, Parent
from evaluators.sandbox.identity import Identities
from evaluators.sandbox.landlock import Access, Landlock, Rule, open_rule
from evaluators.sandbox.limits import Footprint, Role, limit_table
from evaluators.sandbox.report import INSPECTION_NEEDS, LayerName
from evaluators.sandbox.seccomp import Program
from evaluators.sandbox.states import LayerError, LayerStates
from evaluators.sandbox.view import View, cover, package_paths

_KINDS = ((False, False), (True, False), (True, True))
"""Of children: without a GPU, with one, with one and a profiler."""


@dataclass
class Host:
    """What the zygote found and prepared; each part is used where its layer is in force."""

    scratch: Path
    view: View
    footprint: Footprint
    identities: Identities | None = None
    parents: tuple[Parent, ...] = ()
    landlock: Landlock | None = None
    processes: int | None = None
    """A descriptor of ``/proc``, where children get user namespaces of their own."""


class Policy:
    """Makes boxes for children of one zygote."""

    def __init__(self, states: LayerStates, host: Host) -> None:
        self.states = states
        self.host = host
        self._base_rules: dict[Role, list[Rule]] = {}
        self._package_rules: dict[tuple[Role, tuple[str, ...]], list[Rule]] = {}
        self._rulesets: dict[tuple[Role, tuple[str, ...]], Ruleset] = {}
        self._init_programs: dict[tuple[Role, bool, bool], Program] = {}
        if states.active(LayerName.SECCOMP):
            self._init_programs = {
                (role, gpu, inspected): Program(seccomp.instructions(role, own_pid=1, gpu=gpu, inspected=inspected))
                for role in get_args(Role)
                for gpu, inspected in (_KINDS if host.view.gpu_devices else _KINDS[:1])
            }

    def box(self, request: BoxRequest) -> Box:
        """Prepare a child's box, before it is forked.

        Raises:
            OSError: a path or package does not exist, or the kernel refused a rule.
            LayerError: the kernel refused a control group.
            ValueError: a path outside the scratch folder, or a folder for a runner to write.
        """
        self._check(request)
        user = None
        if self.states.active(LayerName.OTHER_USER) and self.host.identities is not None:
            user = (self.host.identities.next(), self.host.identities.group)
            for folder in request.writable:
                _hand_over(folder, *user)
        group = self._group(request)
        try:
            ruleset = self._ruleset(request) if self.states.active(LayerName.LANDLOCK) else None
        except BaseException:
            if group is not None:
                group.remove()
            raise
        return Box(
            request=request,
            scratch=self.host.scratch,
            limits=self._limits(request),
            own_mounts=(request.role == "builder" or request.gpu) and self.states.active(LayerName.MOUNT_NAMESPACE),
            processes=self.host.processes if user is None else None,
            user=user,
            ruleset=ruleset,
            program=self._chooser(request),
            group=group,
        )

    def _chooser(self, request: BoxRequest) -> Callable[[], Program] | None:
        if not self.states.active(LayerName.SECCOMP):
            return None
        return partial(self._program, request.role, request.gpu, request.inspected)

    def _limits(self, request: BoxRequest) -> list[tuple[int, int]]:
        if not self.states.active(LayerName.RESOURCE_LIMITS):
            return []
        threads = len(request.cpus or os.sched_getaffinity(0))
        return limit_table(request.role, request.limits, self.host.footprint, threads, gpu=request.gpu)

    def _group(self, request: BoxRequest) -> ChildGroup | None:
        if not self.host.parents:
            return None
        tasks = request.limits.tasks(request.role)
        try:
            return ChildGroup(self.host.parents, request.name, request.limits.memory_bytes, tasks)
        except OSError as error:
            raise LayerError(LayerName.MEMORY_CGROUP, str(error.strerror)) from error

    def _check(self, request: BoxRequest) -> None:
        if request.inspected and not (request.gpu and request.role == "builder"):
            raise ValueError("only a builder with a GPU runs under a profiler")
        if request.inspected and not all(map(self.states.active, INSPECTION_NEEDS)):
            raise ValueError(f"nothing runs under a profiler without {' and '.join(INSPECTION_NEEDS)}")
        if request.role == "runner" and request.writable:
            raise ValueError(f"a runner may not write {request.writable[0]}")
        for path in (*request.readable, *request.writable):
            if not path.resolve().is_relative_to(self.host.scratch):
                raise ValueError(f"{path} is not in the scratch folder {self.host.scratch}")

    def _ruleset(self, request: BoxRequest) -> Ruleset | None:
        """A ruleset of its own, or the common one of all that name no path."""
        lock = self.host.landlock
        if lock is None:
            return None
        if request.inspected:
            lock = Landlock(lock.version, network=False)
        key = (request.role, request.packages)
        rules = [*self._base(request.role), *self._packages(request.role, request.packages)]
        if not request.readable and not request.writable and not request.gpu:
            if key not in self._rulesets:
                self._rulesets[key] = Ruleset(lock, lock.ruleset(rules), shared=True)
            return self._rulesets[key]
        read = landlock.RUN if request.role == "builder" else landlock.READ
        own = [open_rule(path, read) for path in request.readable]
        own += [open_rule(path, landlock.CHANGE) for path in request.writable]
        if request.gpu:
            own += [open_rule(path, landlock.GPU) for path in self.host.view.gpu_devices]
            own += [open_rule(path, landlock.READ) for path in self.host.view.gpu_files]
        try:
            return Ruleset(lock, lock.ruleset([*rules, *own]), shared=False)
        finally:
            for rule in own:
                os.close(rule.fd)

    def _base(self, role: Role) -> list[Rule]:
        if role not in self._base_rules:
            view = self.host.view
            hidden = () if self.states.active(LayerName.MOUNT_NAMESPACE) else view.hidden
            excluded = (*view.packages, *hidden)
            rules = _rules(cover(view.libraries, excluded), landlock.READ)
            if role == "builder":
                rules += _rules(cover(view.tools, excluded), landlock.RUN)
            rules += _rules(view.devices, landlock.DEVICE)
            # Importing needs the list of what there is; the files in it stay closed.
            rules += _rules(view.packages, landlock.LIST)
            self._base_rules[role] = rules
        return self._base_rules[role]

    def _packages(self, role: Role, names: tuple[str, ...]) -> list[Rule]:
        key = (role, names)
        if key not in self._package_rules:
            paths = [path for name in names for path in package_paths(self.host.view.packages, name)]
            # Some packages bring compilers: a builder may run them.
            self._package_rules[key] = _rules(paths, landlock.RUN if role == "builder" else landlock.READ)
        return self._package_rules[key]

    def _program(self, role: Role, gpu: bool, inspected: bool) -> Program:
        """The filter for the process that asks. Most are an init, which sees itself as 1: theirs is made beforehand."""
        pid = os.getpid()
        if pid == 1:
            return self._init_programs[role, gpu, inspected]
        return Program(seccomp.instructions(role, pid, gpu=gpu, inspected=inspected))


def _rules(paths: Iterable[Path], access: Access) -> list[Rule]:
    return [open_rule(path, access) for path in paths]


def _hand_over(folder: Path, user: int, group: int) -> None:
    """Give a folder and what the judge put into it to a child; no child has touched it yet."""
    os.chown(folder, user, group, follow_symlinks=False)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), user, group, follow_symlinks=False)
