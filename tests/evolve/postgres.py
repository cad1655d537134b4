"""A PostgreSQL server of the tests' own: made from the installed programs, thrown away afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

REQUIRED = "EVOLVE_REQUIRE_POSTGRES"
"""Set where a missing server is a failure: tests that skip themselves test nothing."""

_USER = "evolve"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # The machine is not switched off between two tests.
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
}


def programs() -> Path | None:
    """Where ``initdb`` and ``pg_ctl`` lie: the newest there are."""
    on_path = shutil.which("initdb")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: float(file.parts[-3]))
    return Path(on_path).parent if on_path else found[-1].parent if found else None


@dataclass
class Server:
    """One server on a unix socket; every database it makes is new."""

    programs: Path
    folder: Path
    account: int | None
    """The user that it runs as, where we are root: it refuses to run as that."""
    _numbers: count[int] = field(default_factory=count)

    @classmethod
    def make(cls, programs: Path) -> Server:
        """Make its files, and start it."""
        # Not below a test's own folder: a socket's path may have 107 characters, and another user has to reach it.
        folder = Path(tempfile.mkdtemp(prefix="evolve-pg-", dir="/tmp"))
        account = _ordinary_user() if os.geteuid() == 0 else None
        if account is not None:
            os.chown(folder, account, -1)
        server = cls(programs, folder, account)
        server._call("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={_USER}", "--no-sync")
        with (folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(f"unix_socket_directories = '{folder}'\n")
            settings.writelines(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())
        server.start()
        return server

    def url(self, database: str, user: str = _USER) -> str:
        """Of a database that is there."""
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """An empty database; returns its URL."""
        name = f"test_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def sql(self, statement: str, database: str | None = None) -> None:
        """Execute one statement as the owner of everything."""
        import psycopg  # noqa: PLC0415 - where it is missing there is no server

        with psycopg.connect(
            dbname=database or "postgres", user=_USER, host=str(self.folder), autocommit=True
        ) as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._call("pg_ctl", "start", "--wait", "--silent", "--log", str(self.folder / "log"))

    def stop(self) -> None:
        """Stop it as a crash does: every connection is broken off, and the next start has to recover."""
        self._call("pg_ctl", "stop", "--wait", "--silent", "--mode=immediate")

    def remove(self) -> None:
        """Stop it and delete its files."""
        if (self.folder / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.programs / program, "--pgdata", str(self.folder / "data"), *arguments],
            user=self.account,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,  # The server keeps what it inherits open.
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            log = self.folder / "log"
            raise RuntimeError(f"{program} failed: {done.stderr or (log.read_text() if log.exists() else 'no log')}")


def _ordinary_user() -> int:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return 65534
