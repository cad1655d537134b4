"""``evolve check``: is this task fit to be searched on?"""

from __future__ import annotations

from dataclasses import asdict

import click

from evaluators.check import CheckReport, check_task
from evaluators.task_loading import find_task, load_task
from evolve.cli.exits import Exit
from evolve.cli.options import output_options
from evolve.display.output import DisplayMode, open_output
from evolve.display.report import Report, Table, facts


@click.command()
@click.argument("task")
@click.option("--freeze", is_flag=True, help="Measure the limits anew and write them to tolerance.lock.")
@output_options
def check(task: str, freeze: bool, as_json: bool, display: DisplayMode) -> int:
    """Vet a task: wrong answers must fail, honest ones must pass.

    The limits of error are frozen into tolerance.lock where there are none yet. A task that lets a wrong answer
    through is refused, by the name of that answer.
    """
    output = open_output(display, as_json)
    loaded = load_task(find_task(task))
    output.say(f"{loaded.name}: running the reference, its honest variants and its mutants")
    output.show(_report(check_task(loaded, freeze=freeze)))
    return Exit.DONE


def _report(report: CheckReport) -> Report:
    lock = f"{report.lock}{' (written now)' if report.frozen else ''}" if report.lock else "none: the evaluator's own"
    table = Table(
        ("subject", "workload", "family", "outcome"),
        tuple((row.subject, row.workload, row.family, row.outcome) for row in report.rows),
    )
    data = {
        "task": report.task.name,
        "hash": report.task.hash,
        "lock": str(report.lock) if report.lock else None,
        "frozen": report.frozen,
        "rows": [asdict(row) for row in report.rows],
    }
    pairs = [("task", report.task.name), ("hash", report.task.hash), ("limits", lock), ("verdict", "fit to search on")]
    return Report(data, [table, facts(pairs)])
