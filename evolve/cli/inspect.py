"""``evolve show``, ``best``, ``diff`` and ``lineage``: looking at a run, while it runs or afterwards."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from evaluators.errors import UsageError
from evaluators.task import Task
from evaluators.task_loading import find_task, load_task
from evolve.cli.atomic import write_atomically
from evolve.cli.exits import Exit
from evolve.cli.options import output_options, run_argument
from evolve.cli.runs import account_of, find_run, own_name, program_of
from evolve.config import parse_config
from evolve.display.output import DisplayMode, open_output
from evolve.display.programs import program_data, program_report, program_table
from evolve.display.report import Report
from evolve.display.summary import summarise
from evolve.types import RunStatus
from evolve.view import RunView

LLM = "llm"
"""The proposer whose programs come out of dialogues; its module takes a second to import."""


@click.command()
@run_argument
@click.argument("number", type=int, required=False)
@click.option("--source", is_flag=True, help="Print the program's source too.")
@output_options
def show(run: Path, number: int | None, source: bool, as_json: bool, display: DisplayMode) -> int:
    """Show a run, or one of its programs."""
    output = open_output(display, as_json)
    where = find_run(run)
    view = RunView.open(where)
    if number is not None:
        program = program_of(view, number)
        talk = f"{own_name()} talk {where} {number}" if program.proposer == LLM else ""
        output.show(program_report(program, with_source=source, talk=talk))
        return Exit.DONE
    name = parse_config(view.record.config).task or view.record.task_name
    summary = summarise(account_of(view, where, name, _task(name), _status(view)))
    best = view.lineage(view.record.best) if view.record.best else []
    output.show(
        Report(summary.data, [*summary.parts, *([program_table(best, "how the best came about")] if best else [])])
    )
    return Exit.DONE


@click.command()
@run_argument
@click.option("--output", "-o", "file", type=click.Path(path_type=Path), help="Write it here, atomically.")
@output_options
def best(run: Path, file: Path | None, as_json: bool, display: DisplayMode) -> int:
    """Print or save a run's best program. Exit code 3 if none passed and was confirmed."""
    output = open_output(display, as_json)
    where = find_run(run)
    program = RunView.open(where).best()
    if program is None:
        click.echo(f"evolve: {where}: no confirmed program yet", err=True)
        return Exit.NO
    if file is not None:
        write_atomically(file, program.source)
        output.show(Report({**program_data(program), "file": str(file)}, [f"program {program.number} is in {file}"]))
    else:
        output.show(Report(program_data(program), [program.source.rstrip("\n")]))
    return Exit.DONE


@click.command()
@run_argument
@click.argument("a", type=int)
@click.argument("b", type=int)
@output_options
def diff(run: Path, a: int, b: int, as_json: bool, display: DisplayMode) -> int:
    """Show what differs between programs A and B of a run."""
    output = open_output(display, as_json)
    view = RunView.open(find_run(run))
    old, new = program_of(view, a), program_of(view, b)
    lines = list(
        difflib.unified_diff(
            old.source.splitlines(), new.source.splitlines(), f"program {a}", f"program {b}", lineterm=""
        )
    )
    data = {"a": a, "b": b, "score_a": old.score, "score_b": new.score, "diff": lines}
    output.show(Report(data, ["\n".join(lines) or f"programs {a} and {b} have the same source"]))
    return Exit.DONE


@click.command()
@run_argument
@click.argument("number", type=int)
@output_options
def lineage(run: Path, number: int, as_json: bool, display: DisplayMode) -> int:
    """Show where a program comes from, back to the seed."""
    output = open_output(display, as_json)
    view = RunView.open(find_run(run))
    program_of(view, number)
    programs = view.lineage(number)
    data = {"number": number, "lineage": [program_data(program) for program in programs]}
    output.show(Report(data, [program_table(programs)]))
    return Exit.DONE


def _status(view: RunView) -> str:
    record = view.record
    if record.status is RunStatus.RUNNING:
        return "still running" if view.alive() else "its process is gone or stuck; evolve resume goes on"
    return record.reason or str(record.status)


def _task(name: str) -> Task | None:
    """The run's task, where it can still be read: a run is worth looking at without."""
    try:
        return load_task(find_task(name))
    except UsageError:
        return None
