"""Whose fault a failure on a GPU is: the candidate's, or a sick device's."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from ctypes import c_size_t, c_ubyte, c_ulonglong
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from evaluators.cuda.device import Gpu
from evaluators.cuda.nvml import NvmlUnavailable, XidEvents
from evaluators.cuda.xids import Xid
from evaluators.errors import JudgeError, UsageError
from evaluators.evaluation import Status

SIZE = 64 << 20
PATIENCE_S = 3.0
"""A killed program's work may take a moment to leave the device."""
SLOW_FACTOR, SLOW_MS = 3.0, 0.5
XID_WAIT_S = 0.05
"""The driver may report an error some milliseconds after the program has noticed it."""
_PATTERN = 0xA5
_PAUSE_S = 0.02
_SUFFIX, _WORDS_CAP = ".quarantine", 500


class Events(Protocol):
    """Where the driver's errors come from; see :class:`evaluators.cuda.nvml.XidEvents`."""

    def since(self, wait_s: float = 0.0) -> list[Xid]:
        """What was reported since the last call."""
        ...


SUSPECT = frozenset({Status.RUNTIME_ERROR, Status.TIMEOUT, Status.OUT_OF_MEMORY})
"""Verdicts that a sick device may be behind."""


class DeviceSick(JudgeError):
    """The device cannot be trusted any more. The message says in one line what was seen and what to do."""


@dataclass(frozen=True)
class Finding:
    """What a look at the device after a failure came to: it is well, and this is what the driver said."""

    xids: tuple[Xid, ...]

    def __str__(self) -> str:
        return "; ".join(str(xid) for xid in self.xids)


class Health:
    """Looks at a device from the judge's own context: memory, arithmetic, speed, and the driver's errors."""

    def __init__(self, gpu: Gpu, events: Events | None, uuid: str) -> None:
        """Measure what a well device does; nothing else may run on it.

        Raises:
            JudgeError: it fails already.
        """
        self._gpu, self._events, self._uuid = gpu, events, uuid
        self._address = gpu.driver.allocate(SIZE)
        self._sum, _ = self._look()
        self._idle_ms = min(self._look()[1] for _ in range(3))
        if events is not None:
            events.since()

    def after_failure(self) -> Finding:
        """Called once the runner is gone.

        Raises:
            DeviceSick: the device is at fault; it is quarantined, unless it is only slow.
        """
        xids = tuple(self._events.since(XID_WAIT_S)) if self._events is not None else ()
        wrong = next((str(xid) for xid in xids if xid.whose == "device"), None) or self._unwell()
        if wrong is not None:
            raise DeviceSick(quarantine(self._uuid, wrong))
        return Finding(xids)

    def _unwell(self) -> str | None:
        """What our own work comes to, until it is as fast as ever.

        Raises:
            DeviceSick: it is right and stays slow: something else runs there.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                found, took_ms = self._look()
            except JudgeError as error:
                return f"the judge's own kernels fail: {error}"
            if found != self._sum:
                return "the judge's own memory does not hold what was written"
            if took_ms <= SLOW_FACTOR * self._idle_ms + SLOW_MS:
                return None
            if time.monotonic() > deadline:
                words = f"the judge's own kernels take {took_ms:.2g} ms instead of {self._idle_ms:.2g} ms"
                raise DeviceSick(f"device {self._uuid} stays slow after a program failed: {words}")
            time.sleep(_PAUSE_S)

    def _look(self) -> tuple[int, float]:
        """Write memory, read it: its checksum, and the milliseconds both took."""
        self._gpu.start_clock()
        self._gpu.driver.call("cuMemsetD8_v2", c_ulonglong(self._address), c_ubyte(_PATTERN), c_size_t(SIZE))
        found = self._gpu.checksum(self._address, SIZE, 1)
        return found, self._gpu.stop_clock()


def health_events(gpu: Gpu) -> XidEvents | None:
    """The driver's errors of a device from now on; ``None`` where nobody can listen for them."""
    try:
        return XidEvents(gpu.driver.uuid())
    except NvmlUnavailable:
        return None


def quarantine(uuid: str, why: str) -> str:
    """Note that nothing is to be judged on a device until somebody has looked at it; returns the line that says so.

    The note lies in a folder that others may write too. Its name is drawn, so that nobody can be there before, and
    whatever is not this user's own file counts for nothing.
    """
    try:
        fd, path = tempfile.mkstemp(prefix=_prefix(uuid), suffix=_SUFFIX)
    except OSError as error:
        return f"device {uuid} is sick: {why}; it could not be quarantined: {error.strerror}"
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {why}\n")
    return _line(uuid, why, Path(path))


def refuse_quarantined(uuid: str) -> None:
    """Raise where a device was found sick before.

    Raises:
        UsageError: it was; the line says how to go on.
    """
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{_prefix(uuid)}*{_SUFFIX}")):
        why = _own_words(path)
        if why is not None:
            raise UsageError(_line(uuid, why, path))


def _own_words(path: Path) -> str | None:
    """What this user noted in a file; ``None`` where it is another's, or no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(fd)
        if facts.st_uid != os.getuid() or facts.st_nlink != 1 or not stat.S_ISREG(facts.st_mode):
            return None
        return os.read(fd, _WORDS_CAP).decode(errors="replace").strip()
    finally:
        os.close(fd)


def _line(uuid: str, why: str, path: Path) -> str:
    return f"device {uuid} is quarantined: {why}; look at it (nvidia-smi -q), reset it, then remove {path}"


def _prefix(uuid: str) -> str:
    return f"kernel-evolve-{uuid}-"
