"""A shared object's disassembly with its lines of source, as ``objdump`` prints it. Made of a candidate: data."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass

from evaluators.instructions import Kind, kinds_of

COMMAND = ("objdump", "-C", "-p", "-d", "-l", "--inlines", "--no-show-raw-insn")
"""Readable names, program headers, disassembly, lines, and where inlined code was called from (GNU binutils)."""
_SEGMENT = re.compile(r"^\s+LOAD off\s+0x([0-9a-f]+) vaddr 0x([0-9a-f]+) ")
_SIZES = re.compile(r"^\s+filesz 0x([0-9a-f]+) memsz ")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_INLINED = re.compile(r"^\s*inlined by (.+):(\d+) \(")
_LINE = re.compile(r"^(/?\S.*):(\d+)(?: \(discriminator \d+\))?$")
_INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\s+(\S.*)$")
_REMARK = re.compile(r" (?:<.*>|#.*|//.*)$")
"""Where a jump leads by name, what an address comes to."""
_MOST_TEXT = 300
"""Characters of an instruction that are looked at: a program names its symbols as it likes, at any length."""


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    address: int
    """As linked."""
    text: str
    """Mnemonic and operands, single blanks between them."""
    function: str
    line: int | None
    """Of the candidate's source."""


@dataclass(frozen=True)
class _Segment:
    offset: int
    address: int
    size: int


class Listing:
    """Finds instructions by their place in the file."""

    def __init__(self, text: str, source_name: str) -> None:
        """Read what :data:`COMMAND` printed.

        Args:
            text: its output, or the beginning of it.
            source_name: the bare name of the file whose lines count.
        """
        lines = text.splitlines()
        self._segments = _segments(lines)
        self._instructions = sorted(_instructions(lines, source_name), key=lambda i: i.address)
        self._addresses = [i.address for i in self._instructions]

    def at(self, offset: int) -> Instruction | None:
        """The instruction at an offset in the file; ``None`` where none begins."""
        index = self._index(offset)
        return None if index is None else self._instructions[index]

    def at_work(self, offset: int) -> Instruction | None:
        """What a processor is at work on that would go on at this offset.

        Some count a division as done as soon as it has begun (AMD's Zen: none of 500 samples of a loop that does little
        else lay on it), and stop at the instruction after it, which waits for the result.
        """
        index = self._index(offset)
        if index is None:
            return None
        here, before = self._instructions[index], self._instructions[max(index - 1, 0)]
        divides = before.function == here.function and Kind.DIVISION in kinds_of(before.text)
        return before if divides else here

    def _index(self, offset: int) -> int | None:
        for segment in self._segments:
            if segment.offset <= offset < segment.offset + segment.size:
                address = offset - segment.offset + segment.address
                index = bisect.bisect_left(self._addresses, address)
                found = index < len(self._addresses) and self._addresses[index] == address
                return index if found else None
        return None


def _segments(lines: Iterable[str]) -> list[_Segment]:
    found = []
    at: tuple[int, int] | None = None
    for line in lines:
        if segment := _SEGMENT.match(line):
            at = int(segment[1], 16), int(segment[2], 16)
        elif at is not None and (sizes := _SIZES.match(line)):
            found.append(_Segment(*at, int(sizes[1], 16)))
            at = None
    return found


def _instructions(lines: Iterable[str], source_name: str) -> list[Instruction]:
    """Every instruction; of the places that inlined code has, the innermost in the source counts."""
    found: list[Instruction] = []
    function = ""
    own: int | None = None
    caller: int | None = None
    chained = False
    for line in lines:
        if header := _FUNCTION.match(line):
            function, own, caller = header[1], None, None
        elif instruction := _INSTRUCTION.match(line):
            text = _REMARK.sub("", " ".join(instruction[2][:_MOST_TEXT].split()))
            found.append(Instruction(int(instruction[1], 16), text, function, own or caller))
            chained = False
        elif inlined := _INLINED.match(line):
            # A chain after an instruction is about the same place as before, which is not printed again.
            caller = (caller if chained else None) or _own(inlined[1], inlined[2], source_name)
            chained = True
        elif place := _LINE.match(line):
            own, caller, chained = _own(place[1], place[2], source_name), None, True
    return found


def _own(path: str, number: str, source_name: str) -> int | None:
    return int(number) if path.rpartition("/")[2] == source_name and 0 < len(number) < 8 and int(number) else None
