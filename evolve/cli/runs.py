"""Finding runs, and collecting what a summary says of one."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from evaluators.errors import UsageError
from evaluators.task import Task
from evolve.display.costs import Talk
from evolve.display.summary import Account
from evolve.improvements import gains
from evolve.run import SEED_NUMBER, Run
from evolve.types import Program
from evolve.view import RunView

RUNS_FOLDER = Path("runs")


def find_run(run: Path) -> Path:
    """A run's directory: as given, or by its name in ``runs/``.

    Raises:
        UsageError: There is none.
    """
    for candidate in (run, RUNS_FOLDER / run):
        if candidate.is_dir():
            return candidate
    raise UsageError(f"{run}: no such run; name the directory that evolve run made")


def own_name() -> str:
    """What to type to get this program: its name where that finds it, else the path it was called by."""
    called = sys.argv[0]
    found = shutil.which("evolve")
    if Path(called).name != "evolve" or (found is not None and Path(found).samefile(called)):
        return "evolve"
    return called


def program_of(view: RunView, number: int) -> Program:
    """One program of a run.

    Raises:
        UsageError: There is none of that number.
    """
    try:
        return view.program(number)
    except KeyError:
        raise UsageError(f"run {view.record.name} has no program {number}") from None


def account_of(run: Run | RunView, directory: Path, task_name: str, task: Task | None, reason: str) -> Account:
    """What there is to say of a run; without its task the best published score is left out."""
    try:
        seed = run.program(SEED_NUMBER)
    except KeyError:
        seed = None
    return Account(
        directory=str(directory),
        task=task_name,
        progress=run.progress(),
        seed=seed,
        reason=reason,
        command=own_name(),
        best_known=task.best_known if task else None,
        best_known_source=task.best_known_source if task else "",
        leases=run.storage.open_leases(time.time()),
        talk=_talk(run),
        sandboxes=run.storage.sandboxes(),
    )


def _talk(run: Run | RunView) -> Talk:
    outcomes = Counter(ending.outcome for _, ending in run.storage.endings())
    spending = run.storage.model_spending()
    if not spending:
        return Talk()
    task = json.loads(run.storage.run().task)
    found = gains(run.storage.outcomes(), run.storage.margins(), task["metric"], task["min_gain"])
    return Talk(spending, found, outcomes)
