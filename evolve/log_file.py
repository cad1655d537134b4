"""A run's log: one line for each thing that happened, for people and ``grep``."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from evolve.observer import Silent
from evolve.types import Program, RunStatus


class LogFile(Silent):
    """Appends to ``run.log``. About a hundred bytes a program; never the candidate's own output.

    What it says is in the database too, so a disk that is full costs lines of it and never the run.
    """

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending."""
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with suppress(OSError):
            self._file.close()

    def on_status(self, status: RunStatus, reason: str) -> None:
        """See :class:`~evolve.observer.Observer`."""
        self._line(status.value, reason)

    def on_program(self, program: Program) -> None:
        """See :class:`~evolve.observer.Observer`."""
        verdict = program.verdict
        said = "" if verdict is None else verdict.status.value
        score = "" if program.score is None else f" score {program.score:.6g}"
        placed = f" {program.placement.value}" if program.placement else ""
        twin = f" duplicate of {program.duplicate_of}" if program.duplicate_of else ""
        parents = ",".join(map(str, program.parents)) or "-"
        self._line("program", f"{program.number} {program.operator} of {parents}: {said}{score}{placed}{twin}")

    def on_best(self, program: Program) -> None:
        """See :class:`~evolve.observer.Observer`."""
        self._line("best", f"{program.number} score {program.score:.6g}")

    def on_note(self, kind: str, text: str) -> None:
        """See :class:`~evolve.observer.Observer`."""
        self._line(kind, text)

    def _line(self, kind: str, text: str) -> None:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        with suppress(OSError):
            self._file.write(f"{now} {': '.join(filter(None, (kind, ' '.join(text.split()))))}\n")
