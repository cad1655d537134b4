"""The judge's own temporary folder. A killed judge's folder is removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "kernel-evolve-judge-"
_LOCK = ".lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A fresh folder, removed at the end; folders whose judge is gone are removed first."""
    remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)


def fresh_folder(scratch: Path) -> Path:
    """A folder in the scratch folder that only the judge can enter."""
    return Path(tempfile.mkdtemp(dir=scratch))


def remove_abandoned() -> None:
    """Remove this user's scratch folders that no living judge holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)
