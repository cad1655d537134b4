"""``evolve steer``: telling a run what to do while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from evolve.agents import orders
from evolve.agents.desk import Desk, Sheet
from evolve.cli.agents import conclude
from evolve.cli.exits import Exit
from evolve.cli.options import output_options, run_argument
from evolve.cli.runs import find_run
from evolve.database.steering import Steering, SteerRecord
from evolve.display.output import DisplayMode, open_output
from evolve.display.report import Report, Table
from evolve.source_file import read_source


@click.group()
@run_argument
@click.pass_context
def steer(context: click.Context, run: Path) -> None:
    """Tell a run what to do while it goes on.

    A search that is running obeys within a second; otherwise the order holds from evolve resume on. Every order is
    stored with its time, and stays in force.
    """
    context.meta["evolve.run"] = run


@steer.command()
@click.argument("text")
@output_options
def hint(text: str, as_json: bool, display: DisplayMode) -> int:
    """Say TEXT to every model and agent from now on."""
    return _order(lambda desk: orders.hint(desk, text), as_json, display)


@steer.command()
@click.argument("text")
@click.option(
    "--pattern", default="", metavar="RE", help="Reject sources that match this regular expression, unjudged."
)
@output_options
def ban(text: str, pattern: str, as_json: bool, display: DisplayMode) -> int:
    """Tell every model and agent not to use TEXT; with --pattern, enforce it."""
    return _order(lambda desk: orders.ban(desk, text, pattern), as_json, display)


@steer.command()
@click.argument("number", type=int)
@output_options
def withdraw(number: int, as_json: bool, display: DisplayMode) -> int:
    """Take back hint or ban NUMBER."""
    return _order(lambda desk: orders.withdraw(desk, number), as_json, display)


@steer.command()
@click.argument("lease", type=int)
@output_options
def release(lease: int, as_json: bool, display: DisplayMode) -> int:
    """End LEASE of an agent that will not answer; a late answer is taken all the same."""
    return _order(lambda desk: orders.release(desk, lease), as_json, display)


@steer.command()
@click.argument("island", type=int)
@output_options
def pause(island: int, as_json: bool, display: DisplayMode) -> int:
    """Propose nothing on ISLAND; what is under way there goes on."""
    return _order(lambda desk: orders.pause(desk, island), as_json, display)


@steer.command()
@click.argument("island", type=int)
@output_options
def resume(island: int, as_json: bool, display: DisplayMode) -> int:
    """Propose on ISLAND again."""
    return _order(lambda desk: orders.unpause(desk, island), as_json, display)


@steer.command()
@click.argument("assignment", metavar="NAME=VALUE")
@output_options
def weight(assignment: str, as_json: bool, display: DisplayMode) -> int:
    """Change a proposer's weight; agent=1 lets the run wait for agents."""
    return _order(lambda desk: orders.weight(desk, assignment), as_json, display)


@steer.command()
@click.argument("assignment", metavar="KEY=VALUE")
@output_options
def cap(assignment: str, as_json: bool, display: DisplayMode) -> int:
    """Raise or lower a cap, or lift it with KEY=none."""
    return _order(lambda desk: orders.cap(desk, assignment), as_json, display)


@steer.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--parent", type=int, metavar="NUMBER", help="The program it was made from.")
@click.option("--note", default="", help="One sentence: what it is.")
@click.option("--agent", default="agent", show_default=True, metavar="NAME", help="Who hands it in.")
@click.option("--wait", is_flag=True, help="Wait for the verdict and print it. Exit code 3 if it does not pass.")
@output_options
def inject(
    file: Path, parent: int | None, note: str, agent: str, wait: bool, as_json: bool, display: DisplayMode
) -> int:
    """Hand in the program in FILE without having asked for work."""
    output = open_output(display, as_json)
    with Desk.open(_run()) as desk:
        answer = desk.inject(Sheet(read_source(file), desk.language_of(file), note, agent), parent)
        return asyncio.run(conclude(desk, answer, output, wait=wait))


@steer.command("list")
@output_options
def list_orders(as_json: bool, display: DisplayMode) -> int:
    """Show the orders given so far, and which are in force.

    A hint or ban is until it is withdrawn; of the orders on one island, weight or cap the last is.
    """
    output = open_output(display, as_json)
    with Desk.open(_run()) as desk:
        steering, hold = desk.mailbox.steering(), orders.in_force(desk)
    data = {
        "orders": [{**asdict(record), "in_force": record.id in hold} for record in steering.records],
        "hints": [record.text for record in steering.hints],
        "bans": [{"text": record.text, "pattern": record.argument} for record in steering.bans],
        "paused": sorted(steering.paused),
    }
    output.show(Report(data, [_table(steering, hold) if steering.records else "no orders yet"]))
    return Exit.DONE


def _order(give: Callable[[Desk], SteerRecord], as_json: bool, display: DisplayMode) -> int:
    output = open_output(display, as_json)
    with Desk.open(_run()) as desk:
        record = give(desk)
    output.show(Report(asdict(record), [f"order {record.id}: {record.kind}: {record.text}"]))
    return Exit.DONE


def _run() -> Path:
    run: Path = click.get_current_context().meta["evolve.run"]
    return find_run(run)


def _table(steering: Steering, hold: frozenset[int]) -> Table:
    rows = tuple(
        (
            str(record.id),
            f"{datetime.fromtimestamp(record.at).astimezone():%Y-%m-%d %H:%M:%S}",
            str(record.kind),
            record.text,
            record.argument or "-",
            "in force" if record.id in hold else "-",
        )
        for record in steering.records
    )
    return Table(("order", "at", "kind", "text", "argument", ""), rows, right=frozenset({"order"}))
