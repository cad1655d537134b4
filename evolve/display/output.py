"""The one switch between rich, plain, JSON and silence. Rich is imported only where it is used."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import click

from evolve.display.report import Report, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

DisplayMode = Literal["auto", "rich", "plain", "none"]


class Output(Protocol):
    """Where a command's words go."""

    @property
    def mode(self) -> Literal["rich", "plain", "none"]:
        """What a live display should be."""
        ...

    def say(self, text: str) -> None:
        """A remark on the way: never part of the answer."""

    def show(self, report: Report) -> None:
        """The answer."""


def open_output(mode: DisplayMode, as_json: bool) -> Output:
    """The output for these switches; ``auto`` is rich on a terminal and plain elsewhere."""
    if as_json:
        return JsonOutput()
    if mode == "auto":
        mode = "rich" if sys.stdout.isatty() else "plain"
    if mode == "rich":
        return RichOutput.on_stdout()
    return PlainOutput() if mode == "plain" else SilentOutput()


@dataclass(frozen=True)
class JsonOutput:
    """One JSON document on standard output, nothing else."""

    mode: Literal["none"] = "none"

    def say(self, text: str) -> None:
        """Nothing: remarks are for people."""

    def show(self, report: Report) -> None:
        """The report's data."""
        text = json.dumps(report.data, indent=2, ensure_ascii=False, default=str)
        click.echo("".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text))


@dataclass(frozen=True)
class SilentOutput:
    """Nothing at all: the exit code says it."""

    mode: Literal["none"] = "none"

    def say(self, text: str) -> None:
        """Nothing."""

    def show(self, report: Report) -> None:
        """Nothing."""


@dataclass(frozen=True)
class PlainOutput:
    """Text without colours or cursor movement: for pipes, files and logs."""

    mode: Literal["plain"] = "plain"

    def say(self, text: str) -> None:
        """A line."""
        click.echo(printable(text))

    def show(self, report: Report) -> None:
        """Lines, and tables whose columns are padded with spaces."""
        for part in report.parts:
            click.echo(printable(plain_table(part) if isinstance(part, Table) else part))


@dataclass(frozen=True)
class RichOutput:
    """A terminal."""

    console: Console
    mode: Literal["rich"] = "rich"

    @classmethod
    def on_stdout(cls) -> RichOutput:
        """Rich on standard output."""
        from rich.console import Console  # noqa: PLC0415

        return cls(Console(highlight=False))

    def say(self, text: str) -> None:
        """A dimmed line."""
        self.console.print(printable(text), style="dim", markup=False)

    def show(self, report: Report) -> None:
        """Lines, and tables with borders."""
        for part in report.parts:
            if isinstance(part, Table):
                self.console.print(_rich_table(part))
            else:
                self.console.print(printable(part), markup=False, soft_wrap=True)


def printable(text: str) -> str:
    """The text without control characters: what a candidate or compiler wrote must not move the reader's cursor."""
    return "".join(char if char in "\n\t" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def plain_table(table: Table) -> str:
    """Columns padded with spaces, two between them."""
    rows = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    right = [column in table.right for column in table.columns]
    lines = [
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([table.title, *lines] if table.title else lines)


def _rich_table(table: Table) -> RichTable:
    from rich import box  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = RichTable(title=Text(table.title) if table.title else None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in table.columns:
        drawn.add_column(Text(column), justify="right" if column in table.right else "left")
    for row in table.rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    return drawn
