"""The command line: ``evolve COMMAND``. A command's module is imported when it is used, so that help is instant."""

from __future__ import annotations

import click

from evolve.cli.lazy import LazyGroup
from evolve.cli.version import show_version

EXIT_CODES = """\b
Exit codes:
  0    done
  1    a fault of ours: kernel-evolve or the judge failed
  2    a mistake in what was typed, in a file, or on this machine: one line says what to do
  3    the answer is no: no passing program, or the program did not pass
  75   paused: no language model can be asked; what was done is kept, and evolve resume goes on
  130  stopped by Ctrl-C (143 by SIGTERM); what was done is kept
"""


@click.group(
    cls=LazyGroup,
    lazy_commands={
        "run": ("evolve.cli.run:run", "Search for a better program for a task."),
        "resume": ("evolve.cli.run:resume", "Go on with a run that was stopped or has run out of budget."),
        "eval": ("evolve.cli.evaluate:evaluate", "Judge one file and print a table."),
        "check": ("evolve.cli.check:check", "Vet a task: wrong answers must fail, honest ones must pass."),
        "show": ("evolve.cli.inspect:show", "Show a run, or one of its programs."),
        "profile": ("evolve.cli.profile:profile", "Show where a program's time goes, and what limits it."),
        "best": ("evolve.cli.inspect:best", "Print or save a run's best program."),
        "prompt": ("evolve.cli.prompt:prompt", "Show exactly what a language model would be asked next."),
        "talk": ("evolve.cli.talk:talk", "Show what was said to language models in a run."),
        "diff": ("evolve.cli.inspect:diff", "Show what differs between programs A and B of a run."),
        "lineage": ("evolve.cli.inspect:lineage", "Show where a program comes from, back to the seed."),
        "ask": ("evolve.cli.agents:ask", "Ask a run for a program to work on."),
        "tell": ("evolve.cli.agents:tell", "Hand in a program for a lease, and print its number."),
        "steer": ("evolve.cli.steer:steer", "Tell a run what to do while it goes on."),
        "mcp": ("evolve.cli.mcp:mcp", "Let a coding agent take part in a run over the Model Context Protocol."),
        "replay": ("evolve.cli.replay:replay", "Run a recorded search again, from what its database holds."),
        "doctor": ("evolve.cli.doctor:doctor", "Show what this machine offers and lacks."),
        "db": ("evolve.cli.database:db", "Look after a run's database."),
    },
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Show the version."
)
def main() -> None:
    """Evolve kernels around a judge that cannot be fooled."""
