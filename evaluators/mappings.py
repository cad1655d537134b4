"""What lies where in a process's memory, as the kernel lists it in ``/proc/PID/maps``."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

_ROW = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+ *(.*)")
ANONYMOUS = "[memory]"
"""The name of code that lies in no file."""


@dataclass(frozen=True)
class Place:
    """An address in terms of the file it lies in."""

    file: str
    """The file's bare name, ``[vdso]`` and the like, or :data:`ANONYMOUS`."""
    offset: int
    """In the file."""


@dataclass(frozen=True)
class _Mapping:
    start: int
    end: int
    offset: int
    name: str


class AddressSpace:
    """The executable part of one process's memory."""

    def __init__(self, maps: str) -> None:
        """From the content of ``/proc/PID/maps``; rows that are none are left out."""
        rows = (_ROW.fullmatch(line) for line in maps.splitlines())
        self._mappings = sorted(
            (
                _Mapping(int(row[1], 16), int(row[2], 16), int(row[4], 16), row[5].rpartition("/")[2])
                for row in rows
                if row is not None and "x" in row[3]
            ),
            key=lambda mapping: mapping.start,
        )
        self._starts = [mapping.start for mapping in self._mappings]

    def place(self, address: int) -> Place:
        """Where an address lies."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._mappings[index].end:
            mapping = self._mappings[index]
            return Place(mapping.name or ANONYMOUS, address - mapping.start + mapping.offset)
        return Place(ANONYMOUS, address)
