"""Programs kept at hand: parents and inspirations are the same few elites again and again."""

from __future__ import annotations

from collections import OrderedDict

from evolve.database.storage import Storage
from evolve.types import Program, ProgramState

CACHED_PROGRAMS = 256


class ProgramCache:
    """Reads programs through a bounded cache of finished ones, which never change."""

    def __init__(self, storage: Storage) -> None:
        """An empty cache in front of ``storage``."""
        self._storage = storage
        self._kept: OrderedDict[int, Program] = OrderedDict()

    def get(self, number: int) -> Program:
        """One program.

        Raises:
            KeyError: there is none of that number.
        """
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        program = self._storage.program(number)
        self.keep(program)
        return program

    def keep(self, program: Program) -> None:
        """Keep a program that is finished; the one not asked for longest makes room."""
        if program.state is not ProgramState.FINISHED:
            return
        self._kept[program.number] = program
        if len(self._kept) > CACHED_PROGRAMS:
            self._kept.popitem(last=False)
