"""Recorded duels in a file that only grows: one line a duel, and one with the circumstances for each recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

STEP = 1e-5
"""Log ratios are kept as whole multiples of it."""


@dataclass(frozen=True)
class Cell:
    """One kind of trial."""

    task: str
    condition: str
    """``quiet``; ``loaded``; ``ordinary``: loaded, and without real-time priority; ``shared``: others use the machine
    as they like, and no real-time priority."""
    turns: int
    """The most turns of a round; 1: all calls of the one, then all of the other."""
    percent: float
    """By how much the occupant is slower; 0: it is a copy of the challenger."""


@dataclass(frozen=True)
class Machine:
    """What went on beside a duel; ``None`` where it was not looked at."""

    load: float | None = None
    """The load average of the last minute, at its end."""
    busy: float | None = None
    """The share of all cores' time that was not idle, the duel's own included."""
    stolen: float | None = None
    """The share that the host of a virtual machine kept from it."""


@dataclass(frozen=True)
class Trial:
    """One duel."""

    cell: Cell
    log_ratios: tuple[float, ...]
    """Round by round: above 0 where the challenger was faster."""
    call_us: float
    """The challenger's median."""
    waited: float
    """The median of the shares of the rounds' time that both waited for a core."""
    seconds: float
    """What it took, from the start of the two processes to their end."""
    unresolved: float = 0.0
    """The share of rounds in which both programs' calls were too short to be told apart."""
    machine: Machine = Machine()


def begin(path: Path, circumstances: dict[str, object]) -> None:
    """Note the circumstances of a recording before its first duel; what a crash left unfinished is cut off."""
    if path.exists():
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])
    _append(path, {"recording": circumstances})


def append(path: Path, trial: Trial) -> None:
    """Add a duel."""
    row = {
        **asdict(trial.cell),
        "s": round(trial.seconds, 2),
        "us": round(trial.call_us, 2),
        "waited": round(trial.waited, 3),
        "unresolved": round(trial.unresolved, 3),
        **{name: round(value, 3) for name, value in asdict(trial.machine).items() if value is not None},
        "r": [round(value / STEP) for value in trial.log_ratios],
    }
    _append(path, row)


def append_failure(path: Path, cell: Cell, words: str) -> None:
    """Add a duel that came to nothing because one of the two honest programs failed."""
    _append(path, {**asdict(cell), "failed": words})


def failures(path: Path) -> list[str]:
    """What :func:`append_failure` noted."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    return [row["failed"] for row in rows if "failed" in row]


def load(path: Path) -> list[Trial]:
    """All duels of a file; none where there is no such file yet."""
    return list(_read(path)) if path.exists() else []


def _append(path: Path, row: dict[str, object]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _read(path: Path) -> Iterator[Trial]:
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:  # what lies behind the last line end is unfinished
        row = json.loads(line)
        if "r" not in row:
            continue
        yield Trial(
            Cell(row["task"], row["condition"], row["turns"], row["percent"]),
            tuple(round(value * STEP, 9) for value in row["r"]),
            row["us"],
            row["waited"],
            row["s"],
            row.get("unresolved", 0.0),
            Machine(row.get("load"), row.get("busy"), row.get("stolen")),
        )
