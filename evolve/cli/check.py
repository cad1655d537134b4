"""``evolve check``: is this task fit to be searched on?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

import click

from evaluators.check import CheckReport, CheckRow, check_task
from evaluators.client import JudgeReady, JudgeSettings, SandboxMode
from evaluators.errors import TaskError
from evaluators.evaluation import Environment, Evaluation, Status
from evaluators.task import Task
from evaluators.task_loading import find_task, load_task
from evaluators.task_rules import program_language
from evolve.cli.exits import Exit
from evolve.cli.judging import StartJudge, ready_judges, services, stop_on_signals, unless_stopped
from evolve.cli.options import output_options, sandbox_option
from evolve.display import wording
from evolve.display.output import DisplayMode, open_output
from evolve.display.report import Report, Table, facts
from evolve.display.sandbox import single_warning


@click.command()
@click.argument("task")
@click.option("--freeze", is_flag=True, help="Measure the limits anew and write them to tolerance.lock.")
@sandbox_option
@output_options
def check(task: str, freeze: bool, sandbox: SandboxMode, as_json: bool, display: DisplayMode) -> int:
    """Vet a task: wrong answers must fail, honest ones must pass.

    The limits of error are frozen into tolerance.lock where there are none yet. A task that lets a wrong answer
    through is refused, by the name of that answer. Last, baselines and seed program must pass in the judge.
    """
    output = open_output(display, as_json)
    loaded = load_task(find_task(task))
    start_judge = services().start_judge
    output.say(f"{loaded.name}: running the reference, its honest variants and its mutants, then every program")

    judged: list[tuple[JudgeReady, Environment]] = []

    def programs(task: Task) -> Sequence[CheckRow]:
        ready, seed = asyncio.run(_judge_programs(task, start_judge, sandbox))
        judged.append((ready, seed.environment))
        return [*_baseline_rows(ready), *_seed_rows(seed)]

    output.show(_report(check_task(loaded, freeze=freeze, programs=programs), *judged[-1]))
    return Exit.DONE


async def _judge_programs(task: Task, start_judge: StartJudge, sandbox: SandboxMode) -> tuple[JudgeReady, Evaluation]:
    """Every program of the task's own through the judge, which refuses to start where a baseline fails.

    Raises:
        TaskError: The seed program or a baseline does not pass.
    """
    source = (task.folder / task.seed_program).read_text(encoding="utf-8")
    with stop_on_signals() as stop:
        async with ready_judges(start_judge, JudgeSettings(task.folder, 1, sandbox), stop) as start:
            judge = await start()
            try:
                ready = await judge.ready()
                seed = await unless_stopped(judge.confirm(source, program_language(task, task.seed_program)), stop)
            finally:
                await judge.close()
    if seed.status is not Status.PASSED:
        raise TaskError(f"task {task.name}: seed program {task.seed_program}: {seed.status}: {seed.message}")
    return ready, seed


def _baseline_rows(ready: JudgeReady) -> list[CheckRow]:
    return [
        CheckRow(f"baseline {name}", workload, "", f"passed, {wording.microseconds(us)}")
        for workload, times in ready.baseline_us.items()
        for name, us in times.items()
    ]


def _seed_rows(seed: Evaluation) -> list[CheckRow]:
    rows = [
        CheckRow("seed program", w.workload, "", f"passed, {wording.microseconds(w.call_us.estimate)}")
        for w in seed.workloads
        if w.call_us is not None
    ]
    outcome = "passed, without a score" if seed.score is None else f"passed, score {seed.score:.10g}"
    return rows or [CheckRow("seed program", "", "", outcome)]


def _report(report: CheckReport, ready: JudgeReady, environment: Environment) -> Report:
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
        "sandbox": environment.sandbox,
        "baselines_since": ready.baselines_since,
        "warnings": list(report.hints),
        "rows": [asdict(row) for row in report.rows],
    }
    pairs = [
        ("task", report.task.name),
        ("hash", report.task.hash),
        ("limits", lock),
        ("sandbox", single_warning(environment.sandbox)),
        ("baselines", ready.baselines_since and f"checked and measured now, compiled on {ready.baselines_since}"),
        ("warning", "\n".join(report.hints)),
        ("verdict", "fit to search on"),
    ]
    return Report(data, [table, facts(pairs)])
