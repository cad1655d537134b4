"""``evolve --version``."""

from __future__ import annotations

import click

from evolve.version import installed_version


def show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print the installed version and leave."""
    if not asked or ctx.resilient_parsing:
        return
    version = installed_version()
    click.echo(f"evolve {version}" if version else "evolve, run from its source folder without being installed")
    ctx.exit()
