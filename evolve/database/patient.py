"""Connections that give up a PostgreSQL server that has stopped answering. Needs psycopg, an extra."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

SILENCE_S = 60.0
"""Without a word for so long a server is given up. It waits for a lock for less, and then says so itself."""

T = TypeVar("T")


class PatientConnection(psycopg.Connection[Any]):
    """Waits for an answer, but not for ever.

    The kernel of a server's host goes on answering for a server that hangs, on a disk that does not come back for
    instance: no setting of the connection ends that wait.
    """

    endless = False
    """A statement is under way that may take as long as it likes."""

    def wait(self, gen: PQGen[T], *arguments: Any, **settings: Any) -> T:
        """See :class:`psycopg.Connection`.

        Raises:
            psycopg.OperationalError: there was no answer; the connection is closed.
        """
        return super().wait(self._watched(gen), *arguments, **settings)

    def _watched(self, gen: PQGen[T]) -> Generator[Wait, Ready | int, T]:
        """The same generator, which is told several times a second whether there is anything to read."""
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > SILENCE_S and not self.endless:
                    self.close()
                    raise psycopg.OperationalError(f"the server has not answered for {SILENCE_S:.3g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer


@contextmanager
def endless(connection: PatientConnection) -> Iterator[None]:
    """Let a connection wait as long as its server takes."""
    connection.endless = True
    try:
        yield
    finally:
        connection.endless = False
