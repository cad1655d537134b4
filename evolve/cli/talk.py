"""``evolve talk``: what language models were asked in a run, and what they answered."""

from __future__ import annotations

from pathlib import Path

import click

from evaluators.errors import UsageError
from evolve.cli.exits import Exit
from evolve.cli.options import output_options, run_argument
from evolve.cli.runs import find_run, own_name
from evolve.display.output import DisplayMode, open_output
from evolve.display.talk import dialogue_report, dialogues_report, led
from evolve.view import RunView


@click.command()
@run_argument
@click.argument("number", type=int, required=False)
@click.option("--outcome", metavar="REASON", help="List only what came to this: program, open, not_found, refusal, …")
@output_options
def talk(run: Path, number: int | None, outcome: str | None, as_json: bool, display: DisplayMode) -> int:
    """Show what was said to language models in a run.

    Without NUMBER, a list of all dialogues: those that became a program have its number, the others the reason why they
    became none. With NUMBER, every request of that dialogue and every answer.
    """
    output = open_output(display, as_json)
    where = find_run(run)
    with RunView.open(where) as view:
        storage = view.storage
        everything = led(storage.dialogues(), storage.open_dialogues(), storage.endings())
        if number is None:
            outcomes = {one.outcome for one in everything}
            if outcome is not None and outcome not in outcomes:
                there = ", ".join(sorted(outcomes)) or "none at all"
                raise UsageError(f"--outcome {outcome}: no dialogue of {where} came to it; there are {there}")
            some = [one for one in everything if outcome in {None, one.outcome}]
            output.show(dialogues_report(some, f"{own_name()} talk {where}"))
            return Exit.DONE
        one = next((one for one in everything if one.dialogue.number == number), None)
        if one is None:
            raise UsageError(f"{where}: has no dialogue {number}; evolve talk {where} lists those there are")
        output.show(dialogue_report(one, storage.dialogue_calls(number)))
    return Exit.DONE
