"""One lock around all that is timed on a device: between lanes of a judge, and between all judges of a machine."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluators.device_account import DeviceNews, Watch, unwatched
from evaluators.errors import UsageError
from evaluators.turns import Turns


class DeviceLock:
    """Held around builds and rounds that would disturb each other.

    The lock is a file in the temporary folder that belongs to whoever came first and that everybody may open: judges of
    several users exclude each other. Nobody writes to it, and a link in its place is refused. Judges that are told of
    different temporary folders (``TMPDIR``) do not see each other.
    """

    def __init__(self, name: str, watch: Watch = unwatched) -> None:
        """Nothing is held yet; ``watch`` is told when another judge is waited for, and who has the device.

        Raises:
            UsageError: what lies at the lock's place is no lock.
        """
        self._turns = Turns(1)
        self._path = Path(tempfile.gettempdir()) / f"kernel-evolve-{name}.lock"
        self._fd = _open(self._path)
        self.watch = watch

    @contextmanager
    def held(self, *, first: bool = False) -> Iterator[None]:
        """Wait for the device, and have it for oneself; with ``first`` before other threads that wait.

        Raises:
            UsageError: what lies at the lock's place is no lock any more.
        """
        with self._turns.turn(self.watch, first=first):
            try:
                self._lock()
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _lock(self) -> None:
        """Lock the file that lies at the lock's place: an old one may have been cleaned away while nobody held it."""
        while True:
            self._wait()
            if _is_there(self._path, self._fd):
                return
            fresh = _open(self._path)  # before the old one is closed: its number may soon be another file's
            os.close(self._fd)
            self._fd = fresh

    def _wait(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.watch(DeviceNews.HELD_UP)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            finally:
                self.watch(DeviceNews.GOES_ON)


def _open(path: Path) -> int:
    """The lock's file, made where there is none.

    Where it exists it is opened without ``O_CREAT``, which the kernel refuses for others' files in a folder like
    ``/tmp`` (``fs.protected_regular``). Reading is enough to lock, and nobody can be made to write anywhere by it.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            fd = os.open(path, flags)
        except FileNotFoundError:
            try:
                fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
            except FileExistsError:
                continue
            os.fchmod(fd, 0o444)  # whatever the umask
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; this is the lock of all judges here: remove it") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise UsageError(f"{path}: not a file; this is the place of the lock of all judges here: remove it")
        return fd


def _is_there(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except FileNotFoundError:
        return False
