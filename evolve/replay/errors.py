"""How a replay says that it did not come to what was recorded."""

from __future__ import annotations

from evolve.errors import EvolveError


class DifferenceError(EvolveError):
    """The replay came to something else than the run. The message names the first program and what differs."""


def expect(number: int | None, what: str, recorded: object, replayed: object) -> None:
    """Compare one fact of a program.

    Raises:
        DifferenceError: they are not equal.
    """
    if recorded != replayed:
        who = "the run" if number is None else f"program {number}"
        raise DifferenceError(f"{who}: {what} was {_shown(recorded)} in the recorded run, is {_shown(replayed)} now")


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
