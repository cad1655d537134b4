"""What every call of the command line costs before it does anything."""

import subprocess
import sys
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

import click
import pytest

from evolve.cli import main

ROOT = Path(__file__).resolve().parents[2]
HEAVY = [
    "alembic",
    "anthropic",
    "httpx",
    "numpy",
    "openai",
    "optuna",
    "pydantic",
    "rich",
    "sqlalchemy",
    "torch",
    "triton",
]
COMMANDS = sorted(main.lazy_commands)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = f"""
import sys
import evolve
if {arguments!r}:
    from evolve.cli import main
    sys.argv = ["evolve", *{arguments!r}]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0, end.code
print("HEAVY", sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.endswith("HEAVY []\n"), done.stdout + done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_commands_say(name):
    target, text = main.lazy_commands[name]
    module, _, attribute = target.partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert cleandoc(command.help).splitlines()[0].startswith(text.rstrip("."))
    assert command.name == name or attribute in ("evaluate",)
