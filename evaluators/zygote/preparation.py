"""What a zygote does once, before it forks anything: import, measure itself, change its root, prepare the layers."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import platform
import signal
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators.sandbox import kernel, landlock, syscalls
from evaluators.sandbox.cgroups import Parent
from evaluators.sandbox.identity import Identities
from evaluators.sandbox.landlock import Landlock
from evaluators.sandbox.limits import Footprint
from evaluators.sandbox.mounts import enter_new_root
from evaluators.sandbox.namespaces import open_processes
from evaluators.sandbox.policy import Host, Policy
from evaluators.sandbox.report import LayerName
from evaluators.sandbox.states import LayerStates
from evaluators.sandbox.view import View, base_view
from evaluators.zygote.imports import keep_standard_library, preload

_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}


@dataclass(frozen=True)
class Inherited:
    """What was found before the namespaces were entered."""

    identities: Identities | None
    parents: tuple[Parent, ...]


def prepare(
    states: LayerStates, inherited: Inherited, scratch: Path, modules: Sequence[str], devices: Sequence[Path] = ()
) -> Policy:
    """Bring this process to where it can fork children at once; it has one thread and holds no secret.

    Raises:
        ImportError: a module to preload does not exist.
    """
    preload(modules)
    _become_ordinary()
    view = base_view(devices)
    footprint = Footprint.of_this_process()
    keep_standard_library(view.packages)
    processes = open_processes() if states.active(LayerName.USER_NAMESPACE) else None
    _change_root(states, view, scratch)
    _give_up_privileges(states)
    if inherited.identities is not None and states.active(LayerName.OTHER_USER):
        _let_group_pass(scratch, inherited.identities.group)
    if not states.active(LayerName.PID_NAMESPACE):
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    host = Host(scratch, view, footprint, inherited.identities, inherited.parents, _find_landlock(states), processes)
    _find_seccomp(states)
    if states.wanted(LayerName.RESOURCE_LIMITS):
        states.on(LayerName.RESOURCE_LIMITS)
    policy = Policy(states, host)
    # What exists now is never collected: children would copy every page that the collector touches.
    gc.disable()
    gc.collect()
    gc.freeze()
    return policy


def _become_ordinary() -> None:
    """Give this process the folder, environment, arguments and signals that its children are to find."""
    os.chdir("/")
    for name in set(os.environ) - set(_ENVIRONMENT):
        del os.environ[name]
    os.environ.update(_ENVIRONMENT)
    sys.argv[:], sys.orig_argv[:] = [""], [""]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what a child printed before it was killed is in its log


def _change_root(states: LayerStates, view: View, scratch: Path) -> None:
    if not states.active(LayerName.MOUNT_NAMESPACE):
        return
    try:
        enter_new_root(view, scratch)
    except OSError as error:
        states.off(LayerName.MOUNT_NAMESPACE, str(error.strerror))


def _give_up_privileges(states: LayerStates) -> None:
    kernel.drop_bounding_set()
    if states.active(LayerName.OTHER_USER):
        os.setgroups([])
    with contextlib.suppress(OSError):
        kernel.leave_session_keyring()
    if states.wanted(LayerName.NO_NEW_PRIVILEGES):
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        states.on(LayerName.NO_NEW_PRIVILEGES)


def _let_group_pass(scratch: Path, group: int) -> None:
    """Let the children's group pass through the scratch folder, without seeing what is in it."""
    os.chown(scratch, -1, group)
    scratch.chmod(stat.S_IMODE(scratch.stat().st_mode) | stat.S_IXGRP)


def _find_landlock(states: LayerStates) -> Landlock | None:
    if not states.wanted(LayerName.LANDLOCK):
        return None
    try:
        version = landlock.abi()
    except OSError as error:
        states.off(LayerName.LANDLOCK, landlock.unavailable(error))
        return None
    states.on(LayerName.LANDLOCK, f"ABI {version}")
    return Landlock(version)


def _find_seccomp(states: LayerStates) -> None:
    if not states.wanted(LayerName.SECCOMP):
        return
    try:
        syscalls.here()
    except ValueError as error:
        states.off(LayerName.SECCOMP, str(error))
    else:
        states.on(LayerName.SECCOMP, f"allow-list for {platform.machine()}")
