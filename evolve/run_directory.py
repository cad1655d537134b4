"""A run's folder: what lies where, the lock against a second writer, and files written whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import IO

from evaluators.errors import UsageError
from evaluators.task import Language
from evolve.database.engine import parse_url, without_secrets
from evolve.errors import RunLockedError

EXTENSIONS: dict[Language, str] = {"cpp": ".cpp", "cuda": ".cu", "python": ".py", "triton": ".py", "torch": ".py"}

GLANCE_S = 0.5
"""Others hold the lock for microseconds to look at it: whoever comes back by himself waits no longer than for that."""

MOMENT_S = 10.0
"""Others hold it for a moment to take in what agents told, without a search: opening a run and comparing the answers
with its programs takes tenths of a second, in a long run on a busy machine seconds. Who would give up waits for it."""

RETRY_S = 0.05


class RunDirectory:
    """``run.db`` (or ``database.toml``, naming another), ``config.toml``, ``best.<ext>``, ``run.log``, ``lock``."""

    def __init__(self, path: Path) -> None:
        """The folder at ``path``; nothing is touched yet."""
        self.path = path
        self._lock: IO[str] | None = None

    @property
    def database(self) -> Path:
        """The SQLite file of a run that names no other database."""
        return self.path / "run.db"

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.toml"

    @property
    def log(self) -> Path:
        """One line for each thing that happened."""
        return self.path / "run.log"

    def best(self, language: Language) -> Path:
        """The best program's source."""
        return self.path / f"best{EXTENSIONS[language]}"

    def make(self) -> bool:
        """Make the folder; returns whether it is new.

        Raises:
            UsageError: it holds something, or cannot be made or written.
        """
        new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            occupied = next(self.path.iterdir(), None)
        except OSError as error:
            raise UsageError(f"run folder {self.path}: {error.strerror}; name another folder") from None
        if occupied is not None:
            raise UsageError(f"run folder {self.path}: is not empty; name another folder, or resume the run in it")
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise UsageError(f"run folder {self.path}: may not be written to; name another folder")
        return new

    def acquire(self, patience_s: float = MOMENT_S) -> None:
        """Become the only process that writes this run. The kernel gives the lock back when the process is gone.

        Args:
            patience_s: how long somebody else who has it is waited for.

        Raises:
            RunLockedError: another process has it.
            UsageError: the folder may not be written to.
        """
        try:
            lock = (self.path / "lock").open("a+")
        except OSError as error:
            raise UsageError(f"run folder {self.path}: {error.strerror}") from None
        deadline = time.monotonic() + patience_s
        while not _try_lock(lock):
            if time.monotonic() >= deadline:
                lock.seek(0)
                holder = lock.read().strip() or "unknown"
                lock.close()
                raise RunLockedError(f"run {self.path}: process {holder} has it open; wait for it or stop it first")
            time.sleep(RETRY_S)
        self._lock = lock
        with suppress(OSError):  # Whose it is serves people only; the disk may be full.
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()

    def locked(self) -> bool:
        """Whether a process writes this run now. A glance: the next instant it may be another answer."""
        try:
            with (self.path / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        except OSError as error:
            raise UsageError(f"run folder {self.path}: {error.strerror}") from None
        return False

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            with suppress(OSError):  # A full disk takes not even the rest of the lock's text.
                self._lock.close()
            self._lock = None

    def name_database(self, url: str, run_id: int) -> None:
        """Remember that the run is in another database. A password in the URL is not written."""
        shown = without_secrets(parse_url(url)).render_as_string()
        self.write(self.path / "database.toml", f"url = {json.dumps(shown)}\nrun = {run_id}\n")

    def locate(self, url: str | None = None) -> tuple[str, int]:
        """The run's database and its number there; ``url`` overrides what is remembered (for one with a password).

        Raises:
            UsageError: there is no run in this folder.
        """
        named = self.path / "database.toml"
        if named.is_file():
            try:
                facts = tomllib.loads(named.read_text(encoding="utf-8"))
                return url or str(facts["url"]), int(facts["run"])
            except (OSError, KeyError, TypeError, ValueError) as error:
                raise UsageError(f"{named}: not a run's database ({type(error).__name__}: {error})") from None
        if not self.database.is_file():
            raise UsageError(f"run folder {self.path}: holds no run; check the name")
        return f"sqlite:///{self.database}", 1

    def write_best(self, source: str, language: Language) -> None:
        """Write the best program's source, where it is not there already."""
        file = self.best(language)
        if not file.is_file() or file.read_bytes() != source.encode():
            self.write(file, source)

    def write(self, path: Path, text: str) -> None:
        """Write a file so that a reader, or a crash, sees the old one or the new one.

        Raises:
            UsageError: it cannot be written.
        """
        draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.new")  # Others may write it too.
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from None

    def erase(self, *, new: bool) -> None:
        """Undo :meth:`make` after a failure: remove what was written, and the folder where it was new."""
        self.release()
        for file in self.path.iterdir():
            file.unlink()
        if new:
            self.path.rmdir()


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
