"""Where a runner's threads are at random moments of its calls, seen from outside: it is stopped, read, and goes on.

Nothing is attached to it and nothing runs in it: SIGSTOP, which a program can neither catch nor ignore, and the
kernel's own account in ``/proc``. A sample is a moment of the time that calls take without the stops, each as likely
as any other, whatever the program does when it goes on.
"""

from __future__ import annotations

import os
import platform
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from evaluators.zygote.client import Child

MEAN_INTERVAL_S = 0.5e-3
MOST_THREADS = 64
"""Threads of a process that are read in one sample."""
MAPS_CAP = 4 << 20
_STOP_DEADLINE_S = 5.0
_IDLE_CALLS = {
    "x86_64": frozenset({7, 23, 24, 34, 35, 61, 202, 230, 232, 270, 271, 281, 441, 449, 454, 455}),
    "aarch64": frozenset({22, 72, 73, 95, 98, 101, 115, 124, 260, 441, 449, 454, 455}),
}
"""System calls in which a thread waits for another or for time: futex, sched_yield, nanosleep, poll, select, epoll,
wait (Linux system call tables of each architecture)."""

_CHANNEL_CALLS = {"x86_64": frozenset({0, 1, 44, 45, 46, 47}), "aarch64": frozenset({63, 64, 206, 207, 211, 212})}
"""In which a runner reads a request and sends its answer: read, write, sendto, recvfrom, sendmsg, recvmsg."""


class Unreadable(Exception):
    """The kernel does not let us see where a process is; says why in one line."""


class Doing(Enum):
    """What a thread was about."""

    OWN = auto()
    """Instructions of its own."""
    SYSTEM = auto()
    """A system call."""
    WAITING = auto()
    """A system call in which it waited for another thread, or for time to pass."""
    CHANNEL = auto()
    """The channel: in a runner's first thread, the call had not begun or was over."""


@dataclass(frozen=True)
class Moment:
    """Where one thread was."""

    thread: int
    address: int
    """Of the next instruction of its own."""
    doing: Doing = Doing.OWN


@dataclass
class Samples:
    """What was seen of one program."""

    moments: list[tuple[Moment, ...]] = field(default_factory=list)
    """A row a sample: every thread that could be read."""
    maps: str = ""
    """``/proc/PID/maps`` as it was after the last sample."""


class Sampler:
    """Samples one runner during the calls that it is given to watch."""

    def __init__(self, child: Child, rng: np.random.Generator, most: int, until: float) -> None:
        """Take up to ``most`` samples, none after ``until`` (monotonic seconds)."""
        self.samples = Samples()
        self._child = child
        self._rng = rng
        self._most = most
        self._until = until
        self._machine = platform.machine()
        self._left_s = self._next_s()

    @property
    def done(self) -> bool:
        """Whether it has seen enough, or for long enough."""
        return len(self.samples.moments) >= self._most or time.monotonic() >= self._until

    def watch(self, channel: socket.socket) -> None:
        """Sample until there is an answer to read, or nothing more is wanted. The runner is left running.

        Raises:
            Unreadable: the kernel does not show where it is.
            JudgeError: it could not be stopped.
        """
        while not self.done:
            started = time.monotonic()
            if _readable(channel, self._left_s):
                self._left_s = max(self._left_s - (time.monotonic() - started), 0.0)
                return
            self._left_s = self._next_s()
            with self._stopped():
                if _readable(channel, 0.0):  # it had answered before it stopped
                    return
                moments = self._moments()
                if not any(m.doing is Doing.CHANNEL and m.thread == self._child.pid for m in moments):
                    self.samples.moments.append(moments)

    def read_maps(self) -> None:
        """Note what lies where in its memory.

        Raises:
            Unreadable: the kernel does not show it.
        """
        with _naming(), open(f"/proc/{self._child.pid}/maps", encoding="utf-8", errors="replace") as file:
            self.samples.maps = file.read(MAPS_CAP)

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        self._child.stop(_STOP_DEADLINE_S)
        try:
            yield
        finally:
            self._child.resume()

    def _moments(self) -> tuple[Moment, ...]:
        folder = f"/proc/{self._child.pid}/task"
        with _naming():
            found = [self._moment(folder, thread) for thread in os.listdir(folder)[:MOST_THREADS]]
        return tuple(moment for moment in found if moment is not None)

    def _moment(self, folder: str, thread: str) -> Moment | None:
        try:
            with open(f"{folder}/{thread}/syscall", encoding="ascii") as file:
                words = file.read().split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return parse_moment(int(thread), words, self._machine)

    def _next_s(self) -> float:
        return float(self._rng.exponential(MEAN_INTERVAL_S))


def parse_moment(thread: int, words: list[str], machine: str) -> Moment | None:
    """One thread's line of ``/proc/…/syscall``, in words (proc(5)); ``None`` for one that was not stopped."""
    if len(words) < 3:  # "running"
        return None
    number, address = int(words[0]), int(words[-1], 16)
    if number < 0:
        return Moment(thread, address)
    if number in _IDLE_CALLS.get(machine, ()):
        return Moment(thread, address, Doing.WAITING)
    return Moment(thread, address, Doing.CHANNEL if number in _CHANNEL_CALLS.get(machine, ()) else Doing.SYSTEM)


@dataclass(frozen=True)
class Account:
    """The kernel's account of a process so far, its threads together."""

    user_s: float
    system_s: float
    page_faults: int

    @classmethod
    def of(cls, pid: int) -> Account:
        """As it is now (proc(5), ``/proc/PID/stat``); zeros for a process that is gone."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                row = file.read()
        except (FileNotFoundError, ProcessLookupError):
            return cls(0.0, 0.0, 0)
        fields = row[row.rindex(b")") + 2 :].split()  # a program chooses its own name, with any number of parentheses
        ticks = os.sysconf("SC_CLK_TCK")
        return cls(int(fields[11]) / ticks, int(fields[12]) / ticks, int(fields[7]) + int(fields[9]))

    def since(self, before: Account) -> Account:
        """What was added."""
        return Account(
            max(self.user_s - before.user_s, 0.0),
            max(self.system_s - before.system_s, 0.0),
            max(self.page_faults - before.page_faults, 0),
        )


def _readable(channel: socket.socket, timeout_s: float) -> bool:
    return bool(select.select([channel], [], [], timeout_s)[0])


@contextmanager
def _naming() -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise Unreadable("the kernel shows the place of a sandboxed process to root only") from None
    except (FileNotFoundError, ProcessLookupError):
        raise Unreadable("this kernel does not show where a process is (/proc/PID/syscall)") from None
