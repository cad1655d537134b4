"""The zygote's loop: fork what the judge asks for, tell it of every end."""

from __future__ import annotations

import os
import select
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from evaluators.sandbox import kernel
from evaluators.sandbox.box import Box, BoxRequest
from evaluators.sandbox.cgroups import ChildGroup
from evaluators.sandbox.limits import ChildLimits, Role
from evaluators.sandbox.policy import Policy
from evaluators.sandbox.report import LayerName
from evaluators.sandbox.states import LayerError
from evaluators.zygote import orphans
from evaluators.zygote.birth import Birth, run_child, run_rehearsal
from evaluators.zygote.imports import Entry, resolve
from evaluators.zygote.wire import receive_message, send_message

_REHEARSAL_LIMITS = ChildLimits(memory_bytes=256 << 20, cpu_s=10, file_bytes=0, processes=0)


@dataclass(frozen=True)
class _Live:
    """A child that has not been waited for."""

    number: int
    pid: int
    user: int | None
    group: ChildGroup | None


class Nursery:
    """Forks children, one at a time, and waits for them. Single-threaded, and never runs anything of theirs."""

    def __init__(self, sock: socket.socket, policy: Policy, preloaded: tuple[str, ...]) -> None:
        self._sock = sock
        self._policy = policy
        self._preloaded = preloaded
        self._live: dict[int, _Live] = {}
        self._emptying: list[ChildGroup] = []
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._own_pidfd = os.pidfd_open(os.getpid())

    def rehearse(self) -> None:
        """Fork a child of each role that does nothing; a layer that fails in it is switched off, and said to be.

        Raises:
            ChildProcessError: a child failed without any layer to blame.
        """
        for role in get_args(Role):
            for _ in LayerName:
                failed = self._try(role)
                if failed is None:
                    break
                self._switch_off(failed)

    def serve(self) -> None:
        """Obey until the judge closes its end; then end every child."""
        try:
            while True:
                for fd, _ in self._poll.poll():
                    if fd != self._sock.fileno():
                        self._bury(fd)
                        continue
                    received = receive_message(self._sock)
                    if received is None:
                        return
                    self._spawn(*received)
        except ConnectionError:
            return
        finally:
            self._end_all()

    def _try(self, role: Role) -> LayerError | None:
        reader, writer = os.pipe()
        try:
            box = self._policy.box(BoxRequest(f"rehearsal-{role}", role, _REHEARSAL_LIMITS))
        except LayerError as error:
            os.close(reader)
            os.close(writer)
            return error
        pid = self._fork()
        if pid == 0:
            run_rehearsal(box, writer)
        os.close(writer)
        with open(reader, encoding="utf-8") as words:
            line = words.read()
        _, status = os.waitpid(pid, 0)
        box.release()
        self._let_go(box.group)
        if not line:
            raise ChildProcessError(f"the rehearsal of a {role} ended without a word (status {status})")
        name, _, reason = line.strip().partition("\t")
        return LayerError(LayerName(name), reason) if name else None

    def _switch_off(self, failed: LayerError) -> None:
        states, host = self._policy.states, self._policy.host
        if not states.active(failed.name):
            raise failed
        states.off(failed.name, failed.reason)
        if failed.name in {LayerName.MEMORY_CGROUP, LayerName.PIDS_CGROUP}:
            states.off(LayerName.MEMORY_CGROUP, failed.reason)
            states.off(LayerName.PIDS_CGROUP, failed.reason)
            host.parents = ()

    def _spawn(self, message: dict[str, Any], fds: list[int]) -> None:
        number = message["number"]
        try:
            entry = resolve(message["entry"], self._preloaded)
            box = self._policy.box(_box_request(message))
        except (OSError, ValueError, LayerError) as error:
            self._fail(number, fds, error)
            return
        try:
            pid = self._fork()
        except OSError as error:
            box.release()
            self._let_go(box.group)
            self._fail(number, fds, error)
            return
        if pid == 0:
            run_child(self._birth(message, fds, box, entry))
        self._close(fds)
        box.release()
        pidfd = os.pidfd_open(pid)
        self._live[pidfd] = _Live(number, pid, None if box.user is None else box.user[0], box.group)
        self._poll.register(pidfd, select.POLLIN)
        send_message(self._sock, {"kind": "spawned", "number": number}, (pidfd,))

    def _birth(self, message: dict[str, Any], fds: list[int], box: Box, entry: Entry) -> Birth:
        log, ready, payload, *passed = fds
        environment = message["environment"]
        if box.request.writable:
            environment.setdefault("TMPDIR", str(box.request.writable[0]))
        return Birth(
            box=box,
            entry=entry,
            log=log,
            ready=ready,
            payload=payload,
            fds=dict(zip(message["fds"], passed, strict=True)),
            environment=environment,
            package_folders=[str(path) for path in self._policy.host.view.packages],
            packages=message["python_packages"],
        )

    def _fail(self, number: int, fds: list[int], error: Exception) -> None:
        self._close(fds)
        send_message(self._sock, {"kind": "failed", "number": number, "reason": _one_line(error)})

    def _fork(self) -> int:
        """Fork a process that is the init of a pid namespace of its own, where there are such."""
        if not self._policy.states.active(LayerName.PID_NAMESPACE):
            return os.fork()
        kernel.call("unshare", kernel.CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                kernel.call("setns", self._own_pidfd, kernel.CLONE_NEWPID)
        return pid

    def _bury(self, pidfd: int) -> None:
        live = self._live.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(live.pid, 0)
        if not self._policy.states.active(LayerName.PID_NAMESPACE):
            orphans.end(live.user, {other.pid for other in self._live.values()})
        out_of_memory = live.group is not None and live.group.out_of_memory()
        self._let_go(live.group)
        exited = os.waitstatus_to_exitcode(status)
        summary = {
            "code": exited if exited >= 0 else None,
            "signal": -exited if exited < 0 else None,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "out_of_memory": out_of_memory,
        }
        send_message(self._sock, {"kind": "exited", "number": live.number, "status": summary})

    def _let_go(self, group: ChildGroup | None) -> None:
        """Remove a group, now or, while the kernel still takes its last process apart, at the next occasion."""
        waiting = [*self._emptying, *([] if group is None else [group])]
        self._emptying = [other for other in waiting if not other.remove()]

    def _end_all(self) -> None:
        for pidfd in self._live:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for live in self._live.values():
            os.waitpid(live.pid, 0)
            if not self._policy.states.active(LayerName.PID_NAMESPACE):
                orphans.end(live.user, set())

    @staticmethod
    def _close(fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)


def _box_request(message: dict[str, Any]) -> BoxRequest:
    cpus = message["cpus"]
    return BoxRequest(
        name=str(message["number"]),
        role=message["role"],
        limits=ChildLimits(**message["limits"]),
        readable=tuple(Path(path) for path in message["readable"]),
        writable=tuple(Path(path) for path in message["writable"]),
        packages=tuple(message["python_packages"]),
        gpu=message["gpu"],
        inspected=message["inspected"],
        observed=message["observed"],
        cpus=None if cpus is None else tuple(cpus),
        nice=message["nice"],
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
