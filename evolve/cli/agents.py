"""``evolve ask`` and ``evolve tell``: agents and people outside take part in a run."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from evaluators.client import Judge, JudgeSettings
from evaluators.evaluation import Status
from evolve.agents.awaiting import OwnJudge, Standstill, take_number, take_verdict
from evolve.agents.briefing import Briefing, standing
from evolve.agents.desk import Desk, Sheet
from evolve.cli.exits import Exit
from evolve.cli.judging import Stop, services, starting, stop_on_signals
from evolve.cli.options import output_options, run_argument
from evolve.cli.runs import find_run
from evolve.database.mail import Answer
from evolve.display.output import DisplayMode, Output, open_output
from evolve.display.programs import program_report
from evolve.display.report import Report, facts
from evolve.source_file import read_source
from evolve.types import Program

LEASE_S = 3600.0


@click.command()
@run_argument
@click.option("--agent", default="agent", show_default=True, metavar="NAME", help="Who asks; goes on record.")
@click.option(
    "--lease",
    "lease_s",
    type=float,
    default=LEASE_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the run counts on an answer.",
)
@click.option("--count", type=click.IntRange(1, 100), default=1, show_default=True, help="How many leases.")
@click.option("--parent", type=int, metavar="NUMBER", help="Work on this program; else the search chooses one.")
@output_options
def ask(
    run: Path, agent: str, lease_s: float, count: int, parent: int | None, as_json: bool, display: DisplayMode
) -> int:
    """Ask a run for a program to work on.

    Prints what a proposer would see: task, calling convention, limits, device, a parent program with its measures and
    the judge's words on it, other programs, what failed before, and what people wish for; then the file to write and
    how to hand it in. The same text lies in briefing.md beside that file. Works while the search runs and without it.
    """
    output = open_output(display, as_json)
    with Desk.open(find_run(run)) as desk:
        laid_out = []
        for _ in range(count):
            briefing = desk.ask(agent, lease_s, parent)
            laid_out.append((briefing, desk.lay_out(briefing)))
        data = {"asks": [briefing_data(desk, briefing, file) for briefing, file in laid_out]}
        text = "\n\n".join(_briefing_text(desk, briefing, file) for briefing, file in laid_out)
    output.show(Report(data, [text]))
    return Exit.DONE


@click.command()
@run_argument
@click.argument("lease", type=int, metavar="ID")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--note", default="", help="One sentence: what changed and why it should be better.")
@click.option("--wait", is_flag=True, help="Wait for the verdict and print it. Exit code 3 if it does not pass.")
@output_options
def tell(
    run: Path,
    lease: int,
    file: Path | None,
    note: str,
    wait: bool,
    as_json: bool,
    display: DisplayMode,
) -> int:
    """Hand in a program for a lease, and print its number.

    ID is the lease's, as evolve ask printed it; FILE is by default the file that evolve ask laid out. The source is
    stored before anything else is done. An expired lease is no obstacle; the same source told twice is one program.
    With --wait and no search going on, this command starts a judge itself.
    """
    output = open_output(display, as_json)
    with Desk.open(find_run(run)) as desk:
        asked = desk.lease(lease)
        chosen = file or desk.work_file(asked)
        sheet = Sheet(read_source(chosen), desk.language_of(chosen), note)
        answer = desk.tell(lease, sheet)
        if answer.late_s is not None:
            output.say(f"lease {lease} expired {answer.late_s:.0f} s ago; the program is taken all the same")
        return asyncio.run(conclude(desk, answer, output, wait=wait))


async def conclude(desk: Desk, answer: Answer, output: Output, *, wait: bool) -> int:
    """Print the number of what was handed in, or with ``wait`` its verdict."""
    if not wait:
        number = await take_number(desk, answer)
        if isinstance(number, Standstill):
            output.show(Report({"answer": answer.id, "program": None, "reason": number.text}, [number.text]))
        else:
            text = f"program {number}; its verdict: evolve show {desk.directory} {number}"
            output.show(Report({"answer": answer.id, "program": number}, [text]))
        return Exit.DONE
    with stop_on_signals() as stop:
        result = await take_verdict(desk, answer, _own_judge(desk, output, stop))
        code = stop.exit_code if stop.event.is_set() else Exit.NO
    if isinstance(result, Standstill):
        data = {"answer": answer.id, "program": result.program.number if result.program else None}
        output.show(Report({**data, "reason": result.text}, [result.text]))
        return code
    output.show(_verdict(desk, result))
    return Exit.DONE if result.verdict and result.verdict.status is Status.PASSED else Exit.NO


def briefing_data(desk: Desk, briefing: Briefing, file: Path) -> dict[str, object]:
    """A briefing for programs."""
    lease = briefing.lease
    return {
        "lease": asdict(lease),
        "file": str(file),
        "standing": briefing.standing,
        "tell": f"evolve tell {desk.directory} {lease.id} {file} --wait",
        **asdict(briefing.context),
        "text": briefing.text,
    }


def _own_judge(desk: Desk, output: Output, stop: Stop) -> OwnJudge:
    start_judge = services().start_judge
    settings = JudgeSettings(desk.task.folder, desk.config.search.lanes, desk.config.judge.sandbox)

    async def start() -> Judge:
        output.say(starting(desk.task))
        return await start_judge(settings)

    return OwnJudge(desk, start, stop.event)


def _briefing_text(desk: Desk, briefing: Briefing, file: Path) -> str:
    lease = briefing.lease
    until = datetime.fromtimestamp(lease.expires_at).astimezone()
    pairs = [
        ("lease", f"{lease.id} for {lease.agent}, until {until:%H:%M:%S}"),
        ("write to", f"{file} (program {lease.parent} to begin with)"),
        ("hand in", f"evolve tell {desk.directory} {lease.id} {file} --note '…' --wait"),
    ]
    return f"{briefing.text}\n\n{facts(pairs)}"


def _verdict(desk: Desk, program: Program) -> Report:
    best = desk.mailbox.run().best
    stands = standing(desk.program(best) if best else None, desk.task)
    report = program_report(program, with_source=False)
    new_best = best == program.number
    parts = [*report.parts, "", "It is the new best." if new_best else stands]
    return Report({**report.data, "best": best, "standing": stands}, parts)
