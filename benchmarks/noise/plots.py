"""The figures of docs/timing.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.noise.records import Trial
from benchmarks.noise.replay import half_widths, noise_of, refuted, wins
from benchmarks.noise.rules import RULES
from evaluators.plan import MOST_TURNS
from evaluators.scoring import ALPHA

COLOURS = dict(zip(RULES, ("#1b6ca8", "#2a9d5c", "#8a5bb5", "#d98a1f", "#b8322a"), strict=True))
STYLES = {"quiet": "-", "loaded": "--", "ordinary": ":"}
GAINS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2)
LONG = 40
"""Rounds over which being wrong is followed: more than a duel has."""
DRAWN = 100
"""Synthetic duels a point."""

Cells = Mapping[tuple[str, str, int, float], Sequence[Trial]]
"""By task, condition, turns and percent."""


def draw(cells: Cells, folder: Path) -> None:
    """Write all figures."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "noise", "font.size": 9, "axes.grid": True})
    mpl.rcParams.update({"grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False})
    folder.mkdir(parents=True, exist_ok=True)
    tasks = sorted({task for task, *_ in cells})
    for name, figure in (("width", _width), ("wrong", _wrong), ("found", _found), ("turns", _turns)):
        canvas, axes = plt.subplots(
            1, len(tasks), figsize=(3.2 * len(tasks), 2.8), squeeze=False, sharey=name != "turns"
        )
        for axis, task in zip(axes[0], tasks, strict=True):
            axis.set_title(task)
            figure(axis, task, cells)
        axes[0][-1].legend(fontsize=7, frameon=False)
        canvas.tight_layout()
        canvas.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(canvas)


def _copies(cells: Cells, task: str, condition: str = "quiet", turns: int = MOST_TURNS) -> list[tuple[float, ...]]:
    return [trial.log_ratios for trial in cells.get((task, condition, turns, 0.0), ())]


def _width(axis: Axes, task: str, cells: Cells) -> None:
    """Half-width against the time a duel has taken."""
    for condition, style in STYLES.items():
        trials = cells.get((task, condition, MOST_TURNS, 0.0), ())
        by_rounds: dict[int, list[float]] = {}
        for trial in trials:
            for rounds, half in half_widths("signs", trial.log_ratios):
                by_rounds.setdefault(rounds, []).append(100 * half)
        if by_rounds:
            second = median(trial.seconds / len(trial.log_ratios) for trial in trials)
            axis.plot(
                [rounds * second for rounds in by_rounds],
                [median(values) for values in by_rounds.values()],
                style,
                marker=".",
                color=COLOURS["signs"],
                label=condition,
            )
    axis.set(xlabel="seconds", ylabel="half-width, %", yscale="log")


def _wrong(axis: Axes, task: str, cells: Cells) -> None:
    """How often equal programs are told apart, against the rounds one has looked at."""
    source = noise_of(_copies(cells, task))
    for name in RULES:
        rng = np.random.default_rng(1)
        ends = [refuted(name, source(rng, LONG)) for _ in range(DRAWN)]
        rounds = range(5, LONG + 1, 5)
        shares = [100 * sum(end is not None and end <= n for end in ends) / len(ends) for n in rounds]
        axis.plot(list(rounds), shares, color=COLOURS[name], label=name)
    axis.axhline(100 * ALPHA, color="black", linewidth=0.8)
    axis.set(xlabel="rounds", ylabel="told apart wrongly, %")


def _found(axis: Axes, task: str, cells: Cells) -> None:
    """How often a gain is found; dots: planted ones, by the judge's rule."""
    source = noise_of(_copies(cells, task))
    for name in RULES:
        if name != "bootstrap":
            shares = [100 * wins(name, source, gain, DRAWN) for gain in GAINS]
            axis.plot([100 * gain for gain in GAINS], shares, color=COLOURS[name], label=name)
    axis.set(xlabel="faster by, %", ylabel="duels won, %", xscale="log")


def _turns(axis: Axes, task: str, cells: Cells) -> None:
    """Single rounds about their duel's median, with and without turns."""
    for turns, colour in ((1, "#b8322a"), (MOST_TURNS, "#1b6ca8")):
        copies = _copies(cells, task, turns=turns)
        strays = np.sort(np.abs(np.concatenate([np.asarray(one) - np.median(one) for one in copies]))) * 100
        label = "one after the other" if turns == 1 else "in turns"
        axis.plot(strays[::4], np.linspace(0, 100, len(strays))[::4], color=colour, label=label)
    axis.set(xlabel="round strays by, %", ylabel="of all rounds, %", xscale="log")
    axis.set_xlim(left=0.1)
