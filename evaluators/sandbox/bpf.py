"""A compiler from a table of decisions by system call number to a seccomp program (classic BPF).

The kernel runs the program at every system call, and once for every number when it is installed, so the lookup is a
binary search and not a chain of comparisons.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

ALLOW = 0x7FFF_0000
KILL_PROCESS = 0x8000_0000

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP = 0x05  # BPF_JMP | BPF_JA
_JUMP_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_NUMBER_OFFSET = 0
_ARCHITECTURE_OFFSET = 4
_ARGUMENTS_OFFSET = 16
_LONGEST_SHORT_JUMP = 255
_U32 = 0xFFFF_FFFF

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def refuse(errno: int) -> int:
    """The action that makes a call fail with ``errno``."""
    return 0x0005_0000 | errno


@dataclass(frozen=True)
class Match:
    """``argument & mask == value``. ``wide`` looks at all 64 bits; the kernel ignores the upper half of an ``int``."""

    argument: int
    value: int
    mask: int = _U32
    wide: bool = False
    unlike: bool = False
    """The opposite: holds where they differ. Of an ``int``, not of 64 bits."""

    def __post_init__(self) -> None:
        if self.wide and self.unlike:
            raise ValueError("two halves that differ are two alternatives")


@dataclass(frozen=True)
class Guarded:
    """Allowed where all tests of one of the alternatives hold; else ``otherwise``."""

    alternatives: tuple[tuple[Match, ...], ...]
    otherwise: int


Decision = int | Guarded
"""An action, or one that depends on the arguments."""


def compile_program(
    architecture: int, decisions: Mapping[int, Decision], default: int, beyond: tuple[int, int]
) -> bytes:
    """A program for ``seccomp(SECCOMP_SET_MODE_FILTER)``.

    Args:
        architecture: the ``AUDIT_ARCH_*`` the numbers belong to; a call by any other convention kills the process.
        decisions: what happens at each number.
        default: the action for every other number.
        beyond: a number, and the action for it and all above it.
    """
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
    ]
    program += _search(_segments(decisions, default, beyond))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _segments(decisions: Mapping[int, Decision], default: int, beyond: tuple[int, int]) -> list[tuple[int, Decision]]:
    """The first number of each run of equal decisions, in order."""
    limit, last = beyond
    points: dict[int, Decision] = {0: default, limit: last}
    for number in sorted(decisions):
        points[number] = decisions[number]
        if number + 1 < limit and number + 1 not in decisions:
            points[number + 1] = default
    ordered = sorted(points.items())
    return [ordered[0], *(after for before, after in pairwise(ordered) if after[1] != before[1])]


def _search(segments: Sequence[tuple[int, Decision]]) -> list[Instruction]:
    if len(segments) == 1:
        return _leaf(segments[0][1])
    middle = len(segments) // 2
    below, above = _search(segments[:middle]), _search(segments[middle:])
    start = segments[middle][0]
    if len(below) <= _LONGEST_SHORT_JUMP:
        return [(_JUMP_IF_AT_LEAST, len(below), 0, start), *below, *above]
    return [(_JUMP_IF_AT_LEAST, 0, 1, start), (_JUMP, 0, 0, len(below)), *below, *above]


def _leaf(decision: Decision) -> list[Instruction]:
    if isinstance(decision, int):
        return [(_RETURN, 0, 0, decision)]
    leaf: list[Instruction] = []
    for tests in decision.alternatives:
        words = [(*word, test.unlike) for test in tests for word in _words(test)]
        # Each word takes three instructions; one that fails jumps over the rest of this alternative and its RETURN.
        for position, (offset, mask, value, unlike) in enumerate(words):
            rest = 3 * (len(words) - position - 1) + 1
            jumps = (rest, 0) if unlike else (0, rest)
            leaf += [(_LOAD, 0, 0, offset), (_AND, 0, 0, mask), (_JUMP_IF_EQUAL, *jumps, value)]
        leaf.append((_RETURN, 0, 0, ALLOW))
    leaf.append((_RETURN, 0, 0, decision.otherwise))
    return leaf


def _words(test: Match) -> list[tuple[int, int, int]]:
    """Offset, mask and value of each half to compare (both architectures are little-endian)."""
    offset = _ARGUMENTS_OFFSET + 8 * test.argument
    low = (offset, test.mask & _U32, test.value & _U32)
    return [low, (offset + 4, test.mask >> 32, test.value >> 32)] if test.wide else [low]
