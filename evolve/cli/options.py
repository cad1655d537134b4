"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Command = Callable[..., Any]


def output_options(command: Command) -> Command:
    """``--json`` and ``--display``: what :func:`evolve.display.output.open_output` wants."""
    command = click.option(
        "--display",
        type=click.Choice(["auto", "rich", "plain", "none"]),
        default="auto",
        show_default=True,
        help="How to print; auto is rich on a terminal, else plain.",
    )(command)
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(command)


def config_options(command: Command) -> Command:
    """``--config FILE`` and ``--set key=value``."""
    command = click.option(
        "assignments",
        "--set",
        "-s",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a configuration key, for instance caps.seconds=60, or caps.seconds=none to lift that cap; may be "
        "repeated, wins over the file.",
    )(command)
    return click.option("config_file", "--config", "-c", type=click.Path(path_type=Path), help="A TOML file.")(command)


def run_argument(command: Command) -> Command:
    """The positional RUN."""
    return click.argument("run", metavar="RUN", type=click.Path(path_type=Path))(command)


def sandbox_option(command: Command) -> Command:
    """``--sandbox``, for commands that read no configuration."""
    return click.option(
        "--sandbox",
        type=click.Choice(["full", "reduced", "none"]),
        default="full",
        show_default=True,
        help="The least sandbox to accept on this host.",
    )(command)


def named_proposers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """``--proposers NAME,…`` as assignments of configuration keys: those named get a share of 1, the others none."""
    if value is None:
        return ()
    from evolve.config import ProposerWeights  # noqa: PLC0415 - keeps help fast

    known = tuple(ProposerWeights.model_fields)
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r}: one of {', '.join(known)}", ctx, param)
    return tuple(f"proposers.{name}={float(name in names)}" for name in known)
