"""``evolve eval``: one file, one verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import click

from evaluators.client import JudgeSettings, SandboxMode
from evaluators.errors import JudgeError, UsageError
from evaluators.evaluation import Evaluation, Status
from evaluators.task import Language, Task
from evaluators.task_loading import find_task, load_task
from evaluators.task_rules import SUFFIXES, program_language
from evolve.cli.exits import Exit
from evolve.cli.judging import StartJudge, ready_judges, services, starting, stop_on_signals, unless_stopped
from evolve.cli.options import output_options, sandbox_option
from evolve.display.output import DisplayMode, Output, open_output
from evolve.display.report import Report
from evolve.display.verdict import describe
from evolve.source_file import read_source

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")
"""The GPUs that are compiled for without one; gfx942 is for Triton alone."""


@click.command()
@click.argument("task")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--language",
    type=click.Choice(get_args(Language)),
    help="The file's language, where its suffix does not say.",
)
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    help="For programs of a GPU: only compile, for this one, and tell what the kernels use.",
)
@sandbox_option
@output_options
def evaluate(
    task: str,
    file: Path,
    language: Language | None,
    target: str | None,
    sandbox: SandboxMode,
    as_json: bool,
    display: DisplayMode,
) -> int:
    """Judge one file and print a table.

    The file is judged like a new best of a search: a process of its own, a fixed number of rounds, held-out workloads
    too. A row per workload: the worst error against the float64 oracle beside its limit, the time of a call, the ratio
    to each baseline with its interval (the strongest one is marked *), and the share of the floor. Exit code 3 if the
    program does not pass.

    Without a GPU its programs are compiled, and Triton's are run by Triton's interpreter on small shapes.
    """
    output = open_output(display, as_json)
    loaded = load_task(find_task(task))
    source = read_source(file)
    spoken = language or language_of(file, loaded)
    evaluation = asyncio.run(
        _judge(
            services().start_judge, loaded, JudgeSettings(loaded.folder, 1, sandbox, target), (source, spoken), output
        )
    )
    if evaluation.status is Status.INFRA_ERROR:
        raise JudgeError(evaluation.message)
    output.show(Report(evaluation.model_dump(mode="json"), describe(evaluation)))
    return Exit.DONE if evaluation.status is Status.PASSED else Exit.NO


async def _judge(
    start_judge: StartJudge, task: Task, settings: JudgeSettings, program: tuple[str, Language], output: Output
) -> Evaluation:
    with stop_on_signals() as stop:
        output.say(starting(task))
        async with ready_judges(start_judge, settings, stop) as start:
            judge = await start()
            try:
                return await unless_stopped(judge.confirm(*program, every_baseline=True), stop)
            finally:
                await judge.close()


def language_of(file: Path, task: Task) -> Language:
    """The language that a file's suffix says.

    Raises:
        UsageError: it says none of the task's.
    """
    try:
        return program_language(task, file.name)
    except ValueError:
        suffixes = " or ".join(s for s, fitting in SUFFIXES.items() if not set(fitting).isdisjoint(task.languages))
        raise UsageError(
            f"{file}: task {task.name} wants a {suffixes} file; --language says the language of one with another suffix"
        ) from None
