"""``evolve db``: looking after a run's database."""

from __future__ import annotations

from pathlib import Path

import click

from evolve.cli.exits import Exit
from evolve.cli.options import output_options, run_argument
from evolve.cli.runs import find_run
from evolve.database.dump import dump_run
from evolve.database.versions import open_database, upgrade_database
from evolve.display.output import DisplayMode, open_output
from evolve.display.report import Report
from evolve.run_directory import RunDirectory


@click.group()
def db() -> None:
    """Look after a run's database."""


@db.command()
@click.argument("run", metavar="RUN")
@output_options
def upgrade(run: str, as_json: bool, display: DisplayMode) -> int:
    """Bring a database made by an older version up to date.

    RUN is a run's directory, or a database's URL.
    """
    output = open_output(display, as_json)
    url = run if "://" in run else RunDirectory(find_run(Path(run))).locate()[0]
    before, after = upgrade_database(url)
    text = f"upgraded from {before} to {after}" if before != after else f"up to date: {after}"
    output.show(Report({"before": before, "after": after}, [text]))
    return Exit.DONE


@db.command()
@run_argument
@click.argument("file", type=click.Path(path_type=Path))
@output_options
def dump(run: Path, file: Path, as_json: bool, display: DisplayMode) -> int:
    """Write a run to a text file that evolve replay reads.

    FILE holds one JSON object a line; a name that ends in .gz is compressed.
    """
    output = open_output(display, as_json)
    location, run_id = RunDirectory(find_run(run)).locate()
    engine = open_database(location, read_only=True)
    try:
        size = dump_run(engine, run_id, file)
    finally:
        engine.dispose()
    output.show(Report({"file": str(file), "bytes": size}, [f"{file}: {size} bytes"]))
    return Exit.DONE
