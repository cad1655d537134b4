"""Exit codes, and the ways a command ends other than by being done."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What ``evolve`` tells the shell."""

    DONE = 0
    FAULT = 1
    """Ours: kernel-evolve or the judge failed."""
    USAGE = 2
    """A mistake in what was typed, in a file, or on this machine."""
    NO = 3
    """No passing program, or the program did not pass."""
    PAUSED = 75
    """Nobody can propose until a person has acted, for instance renewed a key; resume then goes on."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C."""
    TERMINATED = 143
    """Stopped by SIGTERM."""


class Interrupted(Exception):
    """Stopped by a signal before there was anything to account for; the text says how things stand."""

    def __init__(self, exit_code: Exit, text: str):
        super().__init__(text)
        self.exit_code = exit_code
