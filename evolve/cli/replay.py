"""``evolve replay``: a recorded search run again, to the same lineage or to the first difference."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from evaluators.errors import UsageError
from evaluators.task import Task
from evaluators.task_loading import find_task, load_task
from evolve.cli.exits import Exit
from evolve.cli.options import output_options
from evolve.cli.runs import RUNS_FOLDER
from evolve.config import Config, parse_config
from evolve.database.steps import Opening
from evolve.display.output import DisplayMode, open_output
from evolve.display.report import Report
from evolve.observer import Silent
from evolve.proposers.tuner import Tuner
from evolve.replay.recording import Recording, open_recording
from evolve.replay.replayer import Replayed
from evolve.replay.replayer import replay as run_again
from evolve.run_directory import RunDirectory
from evolve.types import Proposer


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Keep the replayed run here; new or empty.")
@click.option(
    "--as-recorded",
    multiple=True,
    metavar="PROPOSER",
    help="Give this proposer's proposals back as recorded instead of working them out again; may be repeated. "
    "For tuner, where the run was made with another version of Optuna or NumPy.",
)
@output_options
def replay(run: Path, directory: Path | None, as_recorded: tuple[str, ...], as_json: bool, display: DisplayMode) -> int:
    """Run a recorded search again, from what its database holds.

    RUN is a run's directory, or a file that evolve db dump wrote. Needs no key, no device and no judge: stored answers
    stand in for models and judge. Selection, tuning, placement, migration and resets are worked out again, and compared
    number by number. Exit code 3 if something differs; the line names the first program that does.
    """
    output = open_output(display, as_json)
    found = _find(run)
    if found.is_dir() and RunDirectory(found).locked():  # what is not finished yet would count as a difference
        raise UsageError(f"run {run}: its search goes on: replay it when it has ended")
    recording = open_recording(found)
    with closing(recording.storage), _places(directory) as (where, scratch):
        task = _task(recording, scratch)

        def proposers(opening: Opening) -> list[Proposer]:
            config = parse_config(opening.config) if opening.config else Config()
            return [Tuner(task.flag_choices, config.tuner)]

        replayed = asyncio.run(run_again(recording, where, task, proposers, Silent(), as_recorded=as_recorded))
        report = _report(recording, replayed, directory)
    output.show(report)
    return Exit.NO if replayed.difference else Exit.DONE


def _find(run: Path) -> Path:
    for candidate in (run, RUNS_FOLDER / run):
        if candidate.exists():
            return candidate
    raise UsageError(f"{run}: no such run; name the directory that evolve run made, or a file by evolve db dump")


@contextmanager
def _places(directory: Path | None) -> Iterator[tuple[Path, Path]]:
    """Where the replayed run goes, and a folder for what is only needed meanwhile."""
    with TemporaryDirectory(prefix="evolve-replay-") as scratch:
        yield directory or Path(scratch) / "run", Path(scratch) / "task"


def _task(recording: Recording, scratch: Path) -> Task:
    """The recorded task: with its real folder where that is unchanged, else with its seed program alone."""
    record = recording.record
    name = (parse_config(record.config).task if record.config else "") or record.task_name
    try:
        task = load_task(find_task(name))
    except UsageError:
        return recording.task_with_seed(scratch)
    return task if task.hash == record.task_hash else recording.task_with_seed(scratch)


def _report(recording: Recording, replayed: Replayed, directory: Path | None) -> Report:
    best = recording.record.best
    data = {
        "run": recording.name,
        "same": not replayed.difference,
        "difference": replayed.difference or None,
        "programs": replayed.programs,
        "steps": replayed.steps,
        "best": best,
        "directory": str(directory) if directory else None,
    }
    if replayed.difference:
        text = f"not the same: {replayed.difference}"
    else:
        ending = f"best {best}" if best else "no program was confirmed"
        text = f"the same lineage: {replayed.programs} programs, {ending}"
    return Report(data, [text, *([f"the replayed run is in {directory}"] if directory else [])])
