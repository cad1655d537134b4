"""``evolve --version``."""

from __future__ import annotations

import click


def show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print the installed version and leave."""
    if not asked or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        click.echo(f"evolve {version('kernel-evolve')}")
    except PackageNotFoundError:
        click.echo("evolve, run from its source folder without being installed")
    ctx.exit()
