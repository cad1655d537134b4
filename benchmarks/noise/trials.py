"""Duels of a program with a copy of itself, or with one that is slower on purpose."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean, median
from time import monotonic

from benchmarks.noise.records import Cell, Trial
from benchmarks.noise.watch import watch
from evaluators import plan
from evaluators.calibration import WorkloadCalibration
from evaluators.kernel import KernelJudge
from evaluators.rounds import PairedTimes

ROUNDS = 30
PROBE_PERCENT = 300.0
PROBE_PAD_NS = 0.5
"""What one turn of the padding loop is first taken to need."""


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
        self._calibrations: dict[int, dict[str, WorkloadCalibration]] = {}
        self._folder = folder
        self._condition = condition
        self._turns_a_call: float | None = None

    def _calibrated(self, turns: int) -> dict[str, WorkloadCalibration]:
        if turns not in self._calibrations:
            plan.MOST_TURNS = turns
            self._judge.calibrate()
            self._calibrations[turns] = dict(self._judge.calibrations)
        return self._calibrations[turns]

    def run(self, percent: float, turns: int) -> Trial:
        """One duel of :data:`ROUNDS` rounds."""
        self._judge.calibrations.update(self._calibrated(turns))
        occupant = source_of(self._folder, pad=self._pad(percent), mark="occupant")
        started, seen = monotonic(), watch()
        times = self._paired(source_of(self._folder, mark="challenger"), occupant, ROUNDS)
        seconds = monotonic() - started
        return Trial(
            Cell(self._folder.name, self._condition, turns, percent),
            tuple(times.log_ratios()[:ROUNDS]),
            median(times.ours),
            median(times.waited),
            seconds,
            mean(times.unresolved),
            seen(),
        )

    def _paired(self, one: str, other: str, rounds: int) -> PairedTimes:
        (times,) = self._judge.series((one, "cpp"), (other, "cpp"), rounds).values()
        return times

    def _pad(self, percent: float) -> int:
        """Turns of the padding loop that make a call so much longer; measured once is how many a call is long.

        By the quickest rounds of a call that is several times longer: others who use the machine can only add to them.
        """
        if not percent:
            return 0
        if self._turns_a_call is None:
            call_us = min(self._paired(source_of(self._folder), source_of(self._folder, mark="b"), 10).ours)
            turns = round(call_us * PROBE_PERCENT / 100 / PROBE_PAD_NS * 1000)
            probed = self._paired(source_of(self._folder), source_of(self._folder, pad=turns), 10)
            quickest_us = min(probed.ours)
            self._turns_a_call = turns * quickest_us / (min(probed.theirs) - quickest_us)
        return round(self._turns_a_call * percent / 100)
