"""Live progress of a run: an observer that redraws a few lines on a terminal, or that prints a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evaluators.evaluation import Timed
from evolve.display import wording
from evolve.display.output import Output, RichOutput, printable
from evolve.display.report import facts
from evolve.display.summary import candidates, strongest_baselines, versus_strongest
from evolve.observer import Observer, Progress, Silent
from evolve.types import Program

if TYPE_CHECKING:
    from rich.live import Live

_PLAIN_EVERY_S = 10.0
_NOTES_KEPT = 3


@contextmanager
def live_progress(output: Output, task: str, clock: Callable[[], float] = time.monotonic) -> Iterator[Observer]:
    """The observer that suits the output; what it drew is taken away when the context ends."""
    if isinstance(output, RichOutput):
        from rich.live import Live  # noqa: PLC0415

        with Live(console=output.console, refresh_per_second=4, transient=True) as live:
            yield RichProgress(live, task)
    elif output.mode == "plain":
        yield PlainProgress(output, clock)
    else:
        yield Silent()


class PlainProgress(Silent):
    """A line when there is a new best, when something unusual happens, and every few seconds."""

    def __init__(self, output: Output, clock: Callable[[], float] = time.monotonic):
        self._output = output
        self._clock = clock
        self._said_at = clock()

    def on_best(self, program: Program) -> None:
        """A confirmed new best."""
        self._output.say(f"new best: {best_line(program)}")

    def on_note(self, kind: str, text: str) -> None:
        """Something unusual."""
        self._output.say(f"{kind}: {text}")

    def on_progress(self, progress: Progress) -> None:
        """Now and then."""
        if self._clock() - self._said_at >= _PLAIN_EVERY_S:
            self._said_at = self._clock()
            parts = [candidates(progress), rate(progress), budget_left(progress)]
            self._output.say("; ".join(part for part in parts if part))


class RichProgress(Silent):
    """A few lines that are redrawn in place."""

    def __init__(self, live: Live, task: str):
        self._live = live
        self._task = task
        self._notes: list[str] = []

    def on_note(self, kind: str, text: str) -> None:
        """Something unusual: the latest few stay in sight."""
        self._notes = [*self._notes, f"{kind}: {text}"][-_NOTES_KEPT:]

    def on_progress(self, progress: Progress) -> None:
        """Redraw."""
        from rich.text import Text  # noqa: PLC0415

        self._live.update(Text(printable(progress_text(progress, self._task, self._notes))))


def progress_text(progress: Progress, task: str, notes: list[str]) -> str:
    """What a run looks like at one instant."""
    contender = progress.contender
    pairs = [
        (task, f"{progress.status}, {wording.duration(progress.spent.seconds)}"),
        ("candidates", candidates(progress)),
        ("best", best_line(progress.best) if progress.best else "none confirmed yet"),
        ("contender", f"{best_line(contender)}, being confirmed" if contender else ""),
        ("rate", rate(progress)),
        ("budget left", budget_left(progress) or "no cap: Ctrl-C stops, and the run can be resumed"),
        ("in flight", in_flight(progress)),
        ("notes", "\n".join(notes)),
    ]
    return facts(pairs)


def best_line(program: Program) -> str:
    """A program and its merit in one line."""
    verdict = program.verdict
    if verdict is None or verdict.score is None:
        return f"program {program.number}"
    if isinstance(verdict.timing, Timed):
        return f"program {program.number}, {versus_strongest(verdict.timing.speedup, strongest_baselines(verdict))}"
    return f"program {program.number}, score {verdict.score:.10g}"


def rate(progress: Progress) -> str:
    """Finished candidates a second, over the whole run."""
    seconds = progress.spent.seconds
    return f"{progress.finished / seconds:.3g} candidates a second" if seconds >= 1 and progress.finished else ""


def budget_left(progress: Progress) -> str:
    """What each cap leaves, the wall clock first."""
    caps, spent = progress.caps, progress.spent
    charge = spent.charge
    left = [
        None if caps.seconds is None else wording.duration(max(0.0, caps.seconds - spent.seconds)),
        None if caps.candidates is None else f"{max(0, caps.candidates - charge.candidates)} candidates",
        None
        if caps.device_seconds is None
        else f"{wording.duration(max(0.0, caps.device_seconds - charge.device_s))} of the device",
        None if caps.dollars is None else f"${max(0.0, caps.dollars - charge.dollars):.2f}",
        None if caps.tokens is None else f"{max(0, caps.tokens - charge.tokens)} tokens",
        None if caps.patience is None else f"{max(0, caps.patience - spent.since_best)} more without a new best",
        None if caps.target is None else f"target score {caps.target:g}",
    ]
    return ", ".join(text for text in left if text)


def in_flight(progress: Progress) -> str:
    """What is being done right now."""
    counts = {
        "being proposed": progress.proposing,
        "waiting": progress.waiting,
        "being judged": progress.judging,
        "being placed": progress.placing,
        "with agents": progress.leases,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
