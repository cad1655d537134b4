"""The judge's handle on one sandboxed process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from types import TracebackType
from typing import Self

from evaluators.errors import JudgeError
from evaluators.zygote.request import ExitStatus

_LOG_CHUNK = 64 << 10
_IMPATIENT_SWEEPS = 20
_SWEEP_PAUSE_S = 2e-5
"""Slept, not yielded: a judge at real-time priority yields to nobody below it, and the runner is below it."""
_STATE_STOPPED = b"T"
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of a whole process: its number inverted lies above (Linux: posix-timers_types.h)
_STATES_DEAD = (b"Z", b"X")


class Child:
    """One runner or builder. Thread-safe. Use it as a context manager, or call :meth:`close`: it kills what still runs.

    Attributes:
        pid: the process as the judge sees it.
        pidfd: refers to this process and never to a later one of the same number; readable once it has ended.
        log: read end of the pipe that is the child's standard output and error. What comes out of it is data.
    """

    def __init__(self, pidfd: int, log: int) -> None:
        self.pidfd = pidfd
        self.log = log
        self.pid = _pid_of(pidfd)
        self._status: ExitStatus | None = None
        self._lost: str | None = None
        self._ended = threading.Event()
        self._closing = threading.Lock()
        self._closed = False

    def stop(self, deadline_s: float) -> int:
        """Send SIGSTOP; return once every thread is stopped, or the process is gone.

        Meant for runners: stopping a builder leaves the compilers it started running.

        Returns:
            :meth:`waited_ns` as it was when the signal had been sent: threads need a core to stop on, and wait for it.

        Raises:
            JudgeError: a thread still ran ``deadline_s`` seconds later (a hung disk, for instance).
        """
        self._signal(signal.SIGSTOP)
        waited_ns = self.waited_ns()
        deadline = time.monotonic() + deadline_s
        before: frozenset[str] | None = None
        sweep = 0
        while True:
            now = _stopped_threads(self.pid)
            # Two equal sweeps: while the first ran, a thread not yet stopped may have started another, which the
            # second lists; nobody is left to start one in the second.
            if (now is not None and now == before) or self._gone():
                return waited_ns
            if time.monotonic() > deadline:
                raise JudgeError(f"process {self.pid} did not stop within {deadline_s:g} s")
            before = now
            sweep += 1
            if sweep > _IMPATIENT_SWEEPS:
                time.sleep(_SWEEP_PAUSE_S)  # a thread needs a processor to stop on: perhaps this one

    def resume(self) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)

    def waited_ns(self) -> int:
        """How long its threads together were ready to run and had no core, by the kernel's account; 0 if unknown."""
        total = 0
        folder = f"/proc/{self.pid}/task"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in os.listdir(folder):
                with (
                    contextlib.suppress(FileNotFoundError, ProcessLookupError),
                    open(f"{folder}/{thread}/schedstat", "rb") as file,
                ):
                    total += int(file.read().split()[1])
        return total

    def used_ns(self) -> int:
        """Processor time of all its threads, those that ended included; 0 if unknown. Exact while it is stopped."""
        with contextlib.suppress(OSError):
            return time.clock_gettime_ns(~self.pid << 3 | _PROCESS_CLOCK)
        return 0

    def kill(self) -> None:
        """Send SIGKILL. What a builder started dies with it: it is the init of a pid namespace of its own."""
        self._signal(signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> ExitStatus | None:
        """How it ended; ``None`` when it still runs after ``timeout_s`` seconds.

        Raises:
            JudgeError: the zygote is gone, and with it the child and the knowledge of how it ended.
        """
        if not self._ended.wait(timeout_s):
            return None
        if self._lost is not None:
            raise JudgeError(self._lost)
        return self._status

    def collect(self, timeout_s: float, cap_bytes: int) -> tuple[str, ExitStatus | None]:
        """Read the log until the child ends, and wait for that; what lies beyond the cap is read and dropped.

        Returns:
            The log's first ``cap_bytes`` bytes as text, and how the child ended, or ``None`` when it still runs after
            ``timeout_s`` seconds.
        """
        deadline = time.monotonic() + timeout_s
        kept = bytearray()
        os.set_blocking(self.log, False)
        poll = select.poll()
        poll.register(self.log, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            poll.poll(left * 1000)
            try:
                part = os.read(self.log, _LOG_CHUNK)
            except BlockingIOError:
                continue
            if not part:
                break
            kept += part[: cap_bytes - len(kept)]
        status = self.wait(max(deadline - time.monotonic(), 0.0))
        return kept.decode(errors="replace"), status

    def close(self) -> None:
        """Kill it if it still runs, and close ``pidfd`` and ``log``."""
        with self._closing:
            if self._closed:
                return
            self._signal(signal.SIGKILL)
            self._closed = True
            os.close(self.pidfd)
            os.close(self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ended(self, status: ExitStatus) -> None:
        """Tell the handle how the process ended (called by the zygote's client)."""
        self._status = status
        self._ended.set()

    def lost(self, why: str) -> None:
        """Tell the handle that nobody will learn how it ended (called by the zygote's client)."""
        if not self._ended.is_set():
            self._lost = why
            self._ended.set()

    def _gone(self) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def _signal(self, number: signal.Signals) -> None:
        if self._closed:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)


def _pid_of(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}", "rb") as lines:
        for line in lines:
            if line.startswith(b"Pid:"):
                return int(line.split()[1])
    raise JudgeError("the kernel does not say which process a pidfd refers to")


def _stopped_threads(pid: int) -> frozenset[str] | None:
    """The threads' numbers if all of them are stopped or dead (none, if the process is gone), else ``None``."""
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()
    stopped = set()
    for thread in threads:
        try:
            with open(f"{folder}/{thread}/stat", "rb") as file:
                stat = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # A thread names itself: only what follows the last parenthesis is the kernel's.
        state = stat[stat.rindex(b")") + 2 :][:1]
        if state == _STATE_STOPPED:
            stopped.add(thread)
        elif state not in _STATES_DEAD:
            return None
    return frozenset(stopped)
