"""The zygote's own program: enter the namespaces, fork the process that does the work, clean up after its end."""

from __future__ import annotations

import os
import resource
import signal
import socket
from pathlib import Path
from typing import Any

from evaluators.priority import settle_below_judge
from evaluators.sandbox import cgroups, identity, kernel, namespaces
from evaluators.sandbox.identity import Identities
from evaluators.sandbox.report import LayerName
from evaluators.sandbox.states import LayerStates
from evaluators.zygote.nursery import Nursery
from evaluators.zygote.preparation import Inherited, prepare
from evaluators.zygote.wire import receive_message, send_message

_CGROUP_LAYERS = {"memory": LayerName.MEMORY_CGROUP, "pids": LayerName.PIDS_CGROUP}


def main(fd: int) -> None:
    """Serve the judge over the socket ``fd`` until it closes its end."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    settle_below_judge()
    os.umask(0o022)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sock = socket.socket(fileno=fd)
    received = receive_message(sock)
    if received is None:
        return
    config, _ = received
    states = LayerStates(frozenset(LayerName(name) for name in config["without"]))
    identities = _find_identities(states)
    parents = _make_groups(states)
    if _enter_namespaces(states, loopback=bool(config["devices"])):
        identities = None
    # The pid namespace begins with this fork, and with the end of this child ends everything in it.
    if os.fork() == 0:
        _serve(sock, config, states, Inherited(identities, parents))
        return
    sock.close()
    os.wait()
    for parent in parents:
        parent.remove_all()


def _serve(sock: socket.socket, config: dict[str, Any], states: LayerStates, inherited: Inherited) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    devices = [Path(name) for name in config["devices"]]
    policy = prepare(states, inherited, Path(config["scratch"]), config["preload"], devices)
    nursery = Nursery(sock, policy, tuple(config["preload"]))
    nursery.rehearse()
    send_message(sock, {"kind": "ready", "layers": states.report().to_json()})
    nursery.serve()


def _find_identities(states: LayerStates) -> Identities | None:
    if not states.wanted(LayerName.OTHER_USER):
        return None
    if os.geteuid() != 0:
        states.off(LayerName.OTHER_USER, "only root can change user")
        return None
    found = identity.choose_identities(
        Path("/proc/self/uid_map").read_text(), Path("/proc/self/gid_map").read_text(), os.getpid()
    )
    if found is None:
        states.off(LayerName.OTHER_USER, "no other user exists in this user namespace")
    else:
        states.on(LayerName.OTHER_USER, f"{found.count} users from {found.base}")
    return found


def _make_groups(states: LayerStates) -> tuple[cgroups.Parent, ...]:
    wanted = {name for name, layer in _CGROUP_LAYERS.items() if states.wanted(layer)}
    for name in wanted:
        states.off(_CGROUP_LAYERS[name], f"no control group hierarchy with the {name} controller")
    hierarchies = cgroups.find_hierarchies(
        wanted, Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    )
    parents: list[cgroups.Parent] = []
    for hierarchy in hierarchies:
        layers = [_CGROUP_LAYERS[name] for name in hierarchy.controllers]
        try:
            parents.append(cgroups.Parent(hierarchy))
        except OSError as error:
            for layer in layers:
                states.off(layer, f"{hierarchy.base}: {error.strerror}")
        else:
            for layer in layers:
                states.on(layer, f"version {hierarchy.version}")
    return tuple(parents)


def _enter_namespaces(states: LayerStates, *, loopback: bool) -> bool:
    """Enter what this host allows; True where that took a user namespace, in which there is no other user."""
    mapped = False
    if identity.is_administrator():
        states.off(LayerName.USER_NAMESPACE, "not needed: the judge is root and its children are other users")
    elif states.wanted(LayerName.USER_NAMESPACE):
        try:
            namespaces.enter_user_namespace()
        except OSError as error:
            states.off(LayerName.USER_NAMESPACE, str(error.strerror))
        else:
            mapped = True
            states.on(LayerName.USER_NAMESPACE, "this user, mapped to itself")
            if states.active(LayerName.OTHER_USER):
                states.off(LayerName.OTHER_USER, "root without the right to change user")
    for name, why in namespaces.enter_namespaces(states.without, loopback=loopback).items():
        if why is None:
            states.on(name)
        else:
            states.off(name, why)
    return mapped
