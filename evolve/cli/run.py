"""``evolve run`` and ``evolve resume``: the search itself."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from datetime import datetime
from pathlib import Path

import click

from evaluators.client import JudgeSettings
from evaluators.errors import UsageError
from evaluators.task import Task
from evaluators.task_loading import find_task, load_task
from evolve.cli.exits import Exit
from evolve.cli.judging import Services, Stop, ready_judges, services, stop_on_signals
from evolve.cli.options import config_options, output_options, run_argument
from evolve.cli.runs import account_of, find_run
from evolve.config import Config, dump_config, load_config, parse_config
from evolve.display.output import DisplayMode, Output, open_output
from evolve.display.progress import live_progress
from evolve.display.summary import summarise
from evolve.loop import Outcome, WeightedProposer, search
from evolve.proposers.tuner import Tuner
from evolve.run import Run
from evolve.types import RunStatus
from evolve.view import RunView


@click.command()
@click.argument("task")
@config_options
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where to keep the run; new or empty.")
@output_options
def run(
    task: str,
    config_file: Path | None,
    assignments: tuple[str, ...],
    directory: Path | None,
    as_json: bool,
    display: DisplayMode,
) -> int:
    """Search for a better program for a task.

    TASK is the name of a shipped task, or a task's folder. The search goes on until a cap is met (for instance
    --set caps.seconds=60), or until Ctrl-C; either way everything is kept, and evolve resume goes on.
    """
    output = open_output(display, as_json)
    folder = find_task(task)
    config = load_config(config_file, (*assignments, f"task={task if not Path(task).exists() else folder.resolve()}"))
    loaded = load_task(folder)
    where = directory or Path(config.store.folder) / f"{loaded.name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    _check_writable(where)
    return asyncio.run(_run(where, loaded, config, output, services()))


@click.command()
@run_argument
@config_options
@output_options
def resume(
    run: Path, config_file: Path | None, assignments: tuple[str, ...], as_json: bool, display: DisplayMode
) -> int:
    """Go on with a run that was stopped or has run out of budget.

    RUN is the run's directory. Its configuration is the one it was started with; --set changes it, for instance
    --set caps.seconds=600 to allow ten minutes in all.
    """
    output = open_output(display, as_json)
    where = find_run(run)
    config = load_config(config_file, assignments, base=parse_config(RunView.open(where).record.config))
    return asyncio.run(_resume(where, load_task(find_task(config.task)), config, output, services()))


async def _run(where: Path, task: Task, config: Config, output: Output, world: Services) -> int:
    with stop_on_signals() as stop:
        output.say(f"{task.name}: starting the judge, building and measuring its baselines")
        async with ready_judges(world.start_judge, _judge_settings(task, config), stop) as start:
            url, text = config.store.database, dump_config(config)
            with closing(Run.create(where, task, config.run_settings, url=url, config=text)) as run:
                return await _search(run, where, task, config, output, start, stop)


async def _resume(where: Path, task: Task, config: Config, output: Output, world: Services) -> int:
    with stop_on_signals() as stop:
        output.say(f"{task.name}: starting the judge, building and measuring its baselines")
        async with ready_judges(world.start_judge, _judge_settings(task, config), stop) as start:
            with closing(Run.open(where, task, config.run_settings, config=dump_config(config))) as run:
                return await _search(run, where, task, config, output, start, stop)


async def _search(
    run: Run, where: Path, task: Task, config: Config, output: Output, start: JudgeStarter, stop: Stop
) -> int:
    with live_progress(output, task.name) as observer:
        outcome = await search(run, start, _proposers(task, config), observers=[observer], stop=stop.event)
    output.show(summarise(account_of(run, where, task, config.task, outcome.text)))
    if outcome.status is RunStatus.INTERRUPTED:
        output.say(f"stopped; go on with: evolve resume {where}")
        return stop.exit_code
    return Exit.DONE if run.best() else Exit.NO


def _proposers(task: Task, config: Config) -> list[WeightedProposer]:
    return [WeightedProposer(Tuner(task.flag_choices, config.tuner), config.proposers.tuner)]


def _judge_settings(task: Task, config: Config) -> JudgeSettings:
    return JudgeSettings(task.folder, config.search.lanes, config.judge.sandbox)
