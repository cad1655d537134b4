"""Duels of a program with a copy of itself, or with one that is slower on purpose, recorded round by round."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import expm1
from pathlib import Path
from statistics import median
from time import monotonic

from evaluators import plan
from evaluators.calibration import WorkloadCalibration
from evaluators.kernel import KernelJudge
from evaluators.plan import MOST_TURNS
from evaluators.rounds import PairedTimes

ROUNDS = 30
STEP = 1e-5
"""Log ratios are kept as whole multiples of it."""
PROBE_PERCENT = 30.0
PROBE_PAD_NS = 0.5
"""What one turn of the padding loop is first taken to need."""


@dataclass(frozen=True)
class Cell:
    """One kind of trial."""

    task: str
    condition: str
    """``quiet``; ``loaded``; ``ordinary``: loaded, and without real-time priority."""
    turns: int
    """The most turns of a round; 1: all calls of the one, then all of the other."""
    percent: float
    """By how much the occupant is slower; 0: it is a copy of the challenger."""


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


def source_of(folder: Path, *, pad: int = 0, mark: str = "") -> str:
    """The task's seed program with so many turns of padding in every call, and a comment that makes it another text."""
    text = (folder / "seed.cpp").read_text()
    padded, count = re.subn(r"PAD = 0;", f"PAD = {pad};", text)
    if count != 1:
        raise ValueError(f"{folder / 'seed.cpp'}: no 'PAD = 0;'")
    return f"{padded}// {mark}\n"


class Trials:
    """Runs trials of one task with one judge."""

    def __init__(self, judge: KernelJudge, folder: Path, condition: str) -> None:
        self._judge = judge
        self._calibrations = {turns: self._calibrated(turns) for turns in (1, MOST_TURNS)}
        self._folder = folder
        self._condition = condition
        self._turns_a_call: float | None = None

    def _calibrated(self, turns: int) -> dict[str, WorkloadCalibration]:
        plan.MOST_TURNS = turns
        self._judge.calibrate()
        return dict(self._judge.calibrations)

    def run(self, percent: float, turns: int) -> Trial:
        """One duel of :data:`ROUNDS` rounds."""
        self._judge.calibrations.update(self._calibrations[turns])
        occupant = source_of(self._folder, pad=self._pad(percent), mark="occupant")
        started = monotonic()
        times = self._paired(source_of(self._folder, mark="challenger"), occupant, ROUNDS)
        seconds = monotonic() - started
        return Trial(
            Cell(self._folder.name, self._condition, turns, percent),
            tuple(times.log_ratios()[:ROUNDS]),
            median(times.ours),
            median(times.waited),
            seconds,
        )

    def _paired(self, one: str, other: str, rounds: int) -> PairedTimes:
        (times,) = self._judge.series((one, "cpp"), (other, "cpp"), rounds).values()
        return times

    def _pad(self, percent: float) -> int:
        """Turns of the padding loop that make a call so much longer; measured once is how many a call is long."""
        if not percent:
            return 0
        if self._turns_a_call is None:
            call_us = median(self._paired(source_of(self._folder), source_of(self._folder, mark="b"), 10).ours)
            turns = round(call_us * PROBE_PERCENT / 100 / PROBE_PAD_NS * 1000)
            ratio = median(self._paired(source_of(self._folder), source_of(self._folder, pad=turns), 10).log_ratios())
            self._turns_a_call = turns / max(expm1(ratio), 1e-3)
        return round(self._turns_a_call * percent / 100)


def save(path: Path, context: dict[str, object], trials: Sequence[Trial]) -> None:
    """Write trials by cell, compactly."""
    cells: dict[Cell, list[dict[str, object]]] = {}
    for trial in trials:
        row = {
            "s": round(trial.seconds, 2),
            "us": round(trial.call_us, 2),
            "waited": round(trial.waited, 3),
            "r": [round(value / STEP) for value in trial.log_ratios],
        }
        cells.setdefault(trial.cell, []).append(row)
    lines = [
        json.dumps({**asdict(cell), "duels": rows}, separators=(",", ":"))
        for cell, rows in sorted(
            cells.items(), key=lambda item: (item[0].condition, item[0].task, item[0].turns, item[0].percent)
        )
    ]
    head = json.dumps({"benchmark": "noise_study", "context": context, "step": STEP, "rounds": ROUNDS})
    text = f'{head[:-1]}, "cells": [\n' + ",\n".join(lines) + "\n]}\n"
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


def load(path: Path) -> list[Trial]:
    """Read what :func:`save` wrote; nothing where there is no such file yet."""
    return list(_read(json.loads(path.read_text()))) if path.exists() else []


def _read(content: dict[str, object]) -> Iterator[Trial]:
    cells, step = content["cells"], content["step"]
    assert isinstance(cells, list)
    assert isinstance(step, float)
    for entry in cells:
        cell = Cell(entry["task"], entry["condition"], entry["turns"], entry["percent"])
        for row in entry["duels"]:
            yield Trial(cell, tuple(round(value * step, 9) for value in row["r"]), row["us"], row["waited"], row["s"])
