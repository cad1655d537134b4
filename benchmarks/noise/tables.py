"""The tables of docs/timing.md, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import expm1
from statistics import mean, median

import numpy as np

from benchmarks.noise.records import Trial
from benchmarks.noise.replay import (
    SYNTHETIC,
    Source,
    half_widths,
    noise_of,
    pairs_of,
    refuted,
    replay,
    share_interval,
    smallest_gain,
)
from benchmarks.noise.rules import RULES
from benchmarks.noise.trials import ROUNDS
from evaluators.evaluation import DuelOutcome
from evaluators.plan import MOST_TURNS
from evaluators.scoring import MOST_WAITED

OURS = "signs"
Key = tuple[str, str, int, float]
Cells = Mapping[Key, Sequence[Trial]]
"""By task, condition, turns and percent."""


def tables(cells: Cells) -> Iterator[str]:
    """All of them."""
    yield from copies_table(cells)
    yield ""
    yield from planted_table(cells)
    yield ""
    yield from rules_table(cells)
    yield ""
    yield from processes_table(cells)


def head(*columns: str) -> Iterator[str]:
    """The first two lines of a table."""
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"


def copies_table(cells: Cells) -> Iterator[str]:
    """A program against a copy of itself."""
    yield from head("task", "machine", "turns", "call", "a round strays by", "duels", "told apart", "95 %", "won",
                    "too noisy", "a duel takes")  # fmt: skip
    for (task, condition, turns, percent), trials in sorted(cells.items()):
        if percent:
            continue
        series = [t.log_ratios for t in trials if t.waited <= MOST_WAITED]
        noisy = len(trials) - len(series)
        apart = sum(refuted(OURS, one) is not None for one in series)
        won = sum(replay(OURS, one).outcome is DuelOutcome.CHALLENGER for one in series)
        low, high = share_interval(apart, max(len(series), 1))
        yield (
            f"| {task} | {condition} | {turns} | {median(t.call_us for t in trials):.0f} us | "
            f"{100 * stray(trials):.1f} % | {len(trials)} | {apart} | {100 * low:.1f} to {100 * high:.1f} % | {won} | "
            f"{noisy} | {median(t.seconds for t in trials):.1f} s |"
        )


def stray(trials: Sequence[Trial]) -> float:
    """A robust standard deviation of single rounds about their duel's median."""
    strays = np.concatenate([np.abs(np.asarray(t.log_ratios) - np.median(t.log_ratios)) for t in trials])
    return float(1.483 * np.median(strays))


def planted_table(cells: Cells) -> Iterator[str]:
    """A program against one that is slower on purpose."""
    yield from head("task", "machine", "slower by", "as measured", "duels", "won", "lost", "too noisy")
    for (task, condition, turns, percent), trials in sorted(cells.items()):
        if not percent or turns != MOST_TURNS:
            continue
        series = [t.log_ratios for t in trials if t.waited <= MOST_WAITED]
        outcomes = [replay(OURS, one).outcome for one in series]
        measured = expm1(median(value for one in series for value in one)) if series else 0.0
        yield (
            f"| {task} | {condition} | {percent:g} % | {100 * measured:.1f} % | {len(trials)} | "
            f"{outcomes.count(DuelOutcome.CHALLENGER)} | {outcomes.count(DuelOutcome.OCCUPANT)} | "
            f"{len(trials) - len(series)} |"
        )


def rules_table(cells: Cells) -> Iterator[str]:
    """What every rule makes of the same rounds."""
    yield from head("task", "rule", "told apart", "half-width after 10", "20", "30 rounds", "smallest gain found 95 %")
    for task, series in quiet_copies(cells):
        source = noise_of(series)
        for name in RULES:
            apart = 100 * told_apart(name, source)
            widths = [width_after(name, source, rounds) for rounds in (10, 20, 30)]
            found = "-" if name == "bootstrap" else f"{100 * smallest_gain(name, source):.1f} %"
            yield f"| {task} | {name} | {apart:.1f} % | {' | '.join(widths)} | {found} |"


def processes_table(cells: Cells) -> Iterator[str]:
    """What it does to a duel to take new processes for every block of rounds."""
    yield from head("task", "one pair of processes", "a new pair for every block")
    for task, series in quiet_copies(cells):
        one, several = pairs_of(series, [ROUNDS]), pairs_of(series, [10, 5, 5, 5, 5])
        yield f"| {task} | {100 * told_apart(OURS, one):.1f} % | {100 * told_apart(OURS, several):.1f} % |"


def quiet_copies(cells: Cells) -> Iterator[tuple[str, list[tuple[float, ...]]]]:
    """The series of each task's copies on a quiet machine."""
    for (task, condition, turns, percent), trials in sorted(cells.items()):
        if (condition, turns, percent) == ("quiet", MOST_TURNS, 0.0):
            yield task, [t.log_ratios for t in trials]


def told_apart(name: str, source: Source) -> float:
    """The share of synthetic duels of equal programs that a rule tells apart within a duel's rounds."""
    rng = np.random.default_rng(2)
    return mean(refuted(name, source(rng, ROUNDS)) is not None for _ in range(SYNTHETIC))


def width_after(name: str, source: Source, rounds: int) -> str:
    """The median half-width, in percent."""
    rng = np.random.default_rng(3)
    halves = [dict(half_widths(name, source(rng, rounds))).get(rounds) for _ in range(100)]
    bounded = [half for half in halves if half is not None]
    return f"{100 * median(bounded):.1f} %" if bounded else "-"
