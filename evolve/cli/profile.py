"""``evolve profile``: where a program's time goes, as stored with a run or measured now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import click

from evaluators.client import JudgeSettings, SandboxMode
from evaluators.profile import Profile
from evaluators.task import Language, Task
from evaluators.task_loading import find_task, load_task
from evolve.cli.evaluate import language_of
from evolve.cli.exits import Exit
from evolve.cli.judging import StartJudge, ready_judges, services, starting, stop_on_signals, unless_stopped
from evolve.cli.options import output_options, sandbox_option
from evolve.cli.runs import find_run, program_of
from evolve.display.output import DisplayMode, Output, open_output
from evolve.display.programs import profile_report
from evolve.source_file import read_source
from evolve.view import RunView


@click.command()
@click.argument("where", metavar="RUN|TASK")
@click.argument("what", metavar="NUMBER|FILE")
@click.option(
    "--language",
    type=click.Choice(get_args(Language)),
    help="The file's language, where its suffix does not say.",
)
@sandbox_option
@output_options
def profile(
    where: str,
    what: str,
    language: Language | None,
    sandbox: SandboxMode,
    as_json: bool,
    display: DisplayMode,
) -> int:
    """Show where a program's time goes, and what limits it.

    With RUN and NUMBER: the profile that is stored with a program of a run; those that took a cell of the archive have
    one. With TASK and FILE: measured now, in a process of its own. Bandwidth and arithmetic beside what this device was
    seen to do, the lines and instructions that take the time, how much each thread works. No verdict depends on a
    profile. Exit code 3 if there is none.
    """
    output = open_output(display, as_json)
    if what.isdecimal():
        run = find_run(Path(where))
        found = program_of(RunView.open(run), int(what)).profile
        absent = f"{run}: program {what} has no profile: it took no cell, or there was no room for one"
    else:
        task, file = load_task(find_task(where)), Path(what)
        program = read_source(file), language or language_of(file, task)
        found = asyncio.run(_measure(services().start_judge, task, sandbox, program, output))
        absent = f"task {task.name}: its judge profiles nothing: it is not scored by time, or there is no device"
    if found is None:
        click.echo(f"evolve: {absent}", err=True)
        return Exit.NO
    output.show(profile_report(found))
    return Exit.DONE if found.measured else Exit.NO


async def _measure(
    start_judge: StartJudge, task: Task, sandbox: SandboxMode, program: tuple[str, Language], output: Output
) -> Profile | None:
    with stop_on_signals() as stop:
        output.say(starting(task))
        async with ready_judges(start_judge, JudgeSettings(task.folder, 1, sandbox), stop) as start:
            judge = await start()
            try:
                return await unless_stopped(judge.profile(*program), stop)
            finally:
                await judge.close()
