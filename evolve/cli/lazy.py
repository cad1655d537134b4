"""A click group that imports a command when it is used, and that turns every expected error into one line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from evaluators.errors import EvaluatorsError, UsageError
from evolve.cli.exits import Exit, Interrupted
from evolve.errors import EvolveError


class LazyGroup(click.Group):
    """Knows its commands by module and one line of help.

    Args:
        lazy_commands: Name -> (``module:attribute``, one line of help, the first of the command's docstring).
    """

    def __init__(self, *args: Any, lazy_commands: Mapping[str, tuple[str, str]], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which they are declared."""
        return list(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.lazy_commands:
            return None
        module, _, attribute = self.lazy_commands[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.lazy_commands.items()])

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and leave with its exit code; whatever is expected to go wrong prints one line."""
        kwargs |= {"standalone_mode": False, "prog_name": kwargs.get("prog_name") or "evolve"}
        try:
            code = super().main(*args, **kwargs)
        except click.UsageError as error:
            code = _complain(_with_hint(error), Exit.USAGE)
        except click.ClickException as error:
            code = _complain(error.format_message(), Exit.USAGE)
        except UsageError as error:
            code = _complain(str(error), Exit.USAGE)
        except (EvaluatorsError, EvolveError) as error:
            code = _complain(str(error), Exit.FAULT)
        except Interrupted as error:
            code = _complain(str(error), error.exit_code)
        except click.Abort:
            code = _complain("stopped", Exit.INTERRUPTED)
        sys.exit(code if isinstance(code, int) else Exit.DONE)


def _complain(text: str, code: int) -> int:
    click.echo(f"evolve: {' '.join(text.split())}", err=True)
    return code


def _with_hint(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "evolve"
    return f"{error.format_message()} (see: {command} --help)"
