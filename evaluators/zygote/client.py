"""The judge's side of the zygote: start it, have it fork children, end it and everything below it."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import queue
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evaluators.errors import JudgeError, SandboxError
from evaluators.sandbox.limits import ChildLimits, Role
from evaluators.sandbox.report import LayerName, SandboxLevel, SandboxReport, meets
from evaluators.zygote.child import Child
from evaluators.zygote.process import ZygoteProcess
from evaluators.zygote.request import ExitStatus, SpawnRequest
from evaluators.zygote.wire import receive_message, send_message

__all__ = ["Child", "ChildLimits", "ExitStatus", "Role", "SpawnRequest", "Zygote"]

_START_DEADLINE_S = 60.0
_SPAWN_DEADLINE_S = 30.0
_CLOSE_DEADLINE_S = 5.0
_REASON_CAP = 8 << 10


@dataclass
class _Pending:
    """A request the zygote has not answered; ``log`` goes to the child's handle once there is one."""

    log: int
    answer: queue.SimpleQueue[Child | JudgeError] = field(default_factory=queue.SimpleQueue)


class Zygote:
    """The process that forks runners and builders. Thread-safe. Use it as a context manager, or call :meth:`close`.

    It dies with the judge, whatever ends the judge, and everything it forked dies with it.

    Attributes:
        layers: which layers of the sandbox are in force for its children.
    """

    def __init__(
        self,
        *,
        minimum: SandboxLevel,
        scratch: Path,
        preload: tuple[str, ...] = ("numpy",),
        without: frozenset[LayerName] = frozenset(),
        devices: tuple[Path, ...] = (),
    ) -> None:
        """Start the process and wait until it is ready to fork.

        Args:
            minimum: below this level of sandbox it refuses to start.
            scratch: an existing folder of the judge's own. Children see of it what a request names, and nothing else
                of the judge's files. As root it is made passable (not listable) for the children's group.
            preload: modules that the zygote imports: what runners need, and the module of every ``entry``.
            without: layers to leave out, as on a host that does not have them.
            devices: the device nodes of a GPU, for children whose request says ``gpu``.

        Raises:
            SandboxError: the sandbox is below the minimum here.
            JudgeError: the process did not come up.
        """
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._state = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._children: dict[int, Child] = {}
        self._lost: str | None = None
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        config = {"scratch": str(scratch.resolve()), "preload": list(preload), "without": sorted(without)}
        config["devices"] = [str(path) for path in devices]
        greeting: queue.SimpleQueue[SandboxReport | JudgeError] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(theirs, config, greeting), name="zygote", daemon=True)
        self._thread.start()
        try:
            self.layers = self._greet(greeting)
            if not meets(self.layers.level, minimum):
                raise SandboxError(_below(self.layers, minimum))
        except BaseException:
            self.close()
            raise

    def spawn(self, request: SpawnRequest) -> Child:
        """Fork a child and return once its sandbox is closed and its entry is about to be called.

        Raises:
            JudgeError: the child could not be made, or a layer failed in it; it never ran its entry.
        """
        number = next(self._numbers)
        ready, ready_end = os.pipe()
        try:
            try:
                pending = self._send(number, request, ready_end)
            finally:
                os.close(ready_end)
            child = self._await_fork(number, pending)
            try:
                _await_closed(ready)
            except BaseException:
                child.close()
                raise
            return child
        finally:
            os.close(ready)

    def close(self) -> None:
        """End the zygote and everything below it; return when they are gone."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def _greet(greeting: queue.SimpleQueue[SandboxReport | JudgeError]) -> SandboxReport:
        try:
            answer = greeting.get(timeout=_START_DEADLINE_S)
        except queue.Empty:
            raise JudgeError(f"the zygote was not ready within {_START_DEADLINE_S:g} s") from None
        if isinstance(answer, JudgeError):
            raise answer
        return answer

    def _send(self, number: int, request: SpawnRequest, ready_end: int) -> _Pending:
        payload = _sealed(json.dumps(dict(request.payload)).encode())
        log, log_end = os.pipe()
        pending = _Pending(log)
        try:
            with self._state:
                if self._lost is not None:
                    raise JudgeError(self._lost)
                self._pending[number] = pending
            with self._sending:
                send_message(
                    self._sock, _message(number, request), (log_end, ready_end, payload, *request.fds.values())
                )
        except BaseException as error:
            self._forget(number)
            os.close(log)
            if isinstance(error, OSError):
                raise JudgeError(f"the zygote is gone: {error.strerror}") from None
            raise
        finally:
            os.close(log_end)
            os.close(payload)
        return pending

    def _await_fork(self, number: int, pending: _Pending) -> Child:
        try:
            answer = pending.answer.get(timeout=_SPAWN_DEADLINE_S)
        except queue.Empty:
            if self._forget(number) is not None:
                os.close(pending.log)
                raise JudgeError(f"the zygote did not fork within {_SPAWN_DEADLINE_S:g} s") from None
            answer = pending.answer.get()
        if isinstance(answer, JudgeError):
            os.close(pending.log)
            raise answer
        return answer

    def _forget(self, number: int) -> _Pending | None:
        with self._state:
            return self._pending.pop(number, None)

    def _serve(
        self,
        theirs: socket.socket,
        config: Mapping[str, Any],
        greeting: queue.SimpleQueue[SandboxReport | JudgeError],
    ) -> None:
        """Start the process and read what it says, until it is gone.

        Runs in a thread of its own for as long as the process lives: the kernel's parent-death signal fires when the
        *thread* that started a process ends.
        """
        why = "the zygote is gone"
        process = None
        try:
            with theirs:
                process = ZygoteProcess(theirs)
            send_message(self._sock, dict(config))
            while (received := receive_message(self._sock)) is not None:
                self._receive(*received, greeting)
        except (OSError, ValueError) as error:
            why = f"{why}: {error}"
        finally:
            if process is not None:
                words = process.end(_CLOSE_DEADLINE_S)
                why = f"{why}: {words}" if words else why
            self._lose(why)
            greeting.put(JudgeError(why))

    def _receive(
        self, message: dict[str, Any], fds: list[int], greeting: queue.SimpleQueue[SandboxReport | JudgeError]
    ) -> None:
        match message["kind"]:
            case "ready":
                greeting.put(SandboxReport.from_json(message["layers"]))
            case "spawned":
                self._spawned(message["number"], fds[0])
            case "failed":
                pending = self._forget(message["number"])
                if pending is not None:
                    pending.answer.put(JudgeError(message["reason"]))
            case "exited":
                with self._state:
                    child = self._children.pop(message["number"], None)
                if child is not None:
                    child.ended(ExitStatus(**message["status"]))

    def _spawned(self, number: int, pidfd: int) -> None:
        pending = self._forget(number)
        if pending is None:  # nobody waits for it any more
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
            return
        child = Child(pidfd, pending.log)
        with self._state:
            self._children[number] = child
        pending.answer.put(child)

    def _lose(self, why: str) -> None:
        with self._state:
            self._lost = why
            pending, self._pending = self._pending, {}
            children, self._children = self._children, {}
        for waiting in pending.values():
            waiting.answer.put(JudgeError(why))
        for child in children.values():
            child.lost(why)


def _message(number: int, request: SpawnRequest) -> dict[str, Any]:
    return {
        "number": number,
        "role": request.role,
        "entry": request.entry,
        "fds": list(request.fds),
        "readable": [str(path) for path in request.readable],
        "writable": [str(path) for path in request.writable],
        "limits": asdict(request.limits),
        "cpus": None if request.cpus is None else sorted(request.cpus),
        "nice": request.nice,
        "environment": dict(request.environment),
        "python_packages": list(request.python_packages),
        "gpu": request.gpu,
        "inspected": request.inspected,
        "observed": request.observed,
    }


def _sealed(content: bytes) -> int:
    """A memory file that nobody can change."""
    fd = os.memfd_create("payload", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def _await_closed(ready: int) -> None:
    """Wait until the child says that its sandbox is closed; it says so with an empty line, or says what failed."""
    deadline = time.monotonic() + _SPAWN_DEADLINE_S
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    words = b""
    while len(words) < _REASON_CAP:
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise JudgeError(f"the sandbox of a new process was not closed within {_SPAWN_DEADLINE_S:g} s")
        part = os.read(ready, _REASON_CAP)
        if part == b"\n":
            return
        if not part:
            break
        words += part
    reason = words.decode(errors="replace").strip() or "it ended before its sandbox was closed"
    raise JudgeError(f"cannot start a sandboxed process: {reason}")


def _below(report: SandboxReport, minimum: SandboxLevel) -> str:
    missing = "; ".join(f"{layer.name} ({layer.detail})" for layer in report.missing())
    return f"the sandbox is {report.level!r} on this host, below the minimum {minimum!r}: missing {missing}"
