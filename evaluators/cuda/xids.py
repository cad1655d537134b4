"""What the driver's error numbers mean: whose fault an error is, the running program's or the device's.

Numbers, names and advice: NVIDIA, "Xid Errors", the catalogue for Ampere and later
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html); the names are those of ``nverror.h`` in NVIDIA's
open kernel modules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Whose = Literal["program", "device", "unclear"]

PROGRAM: dict[int, str] = {
    8: "the device stopped processing: a kernel that never ends",
    13: "graphics engine exception: an illegal instruction or address, or a trap of the kernel's own",
    31: "memory management fault: an access to an address that is not mapped",
    32: "invalid or corrupted push buffer",
    43: "the channel was reset after an error of the program",
    44: "fault during a context switch, with an error of the program",
    45: "channels were taken away early: the program was killed or failed before",
    68: "video processor exception",
    69: "graphics engine class error",
}
"""Every one of these a program can bring about; the advice is to restart or debug the application."""

DEVICE: dict[int, str] = {
    46: "the device stopped processing and needs a reset",
    48: "uncorrectable memory error (double bit)",
    61: "internal microcontroller breakpoint",
    62: "internal microcontroller halt",
    63: "a memory row was marked for remapping; takes effect at the next reset",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "the device has fallen off the bus",
    92: "high rate of corrected memory errors",
    94: "uncorrectable memory error, contained",
    95: "uncorrectable memory error, not contained",
    110: "security fault",
    119: "the system processor does not answer",
    120: "the system processor reported an error",
    140: "unrecovered memory error",
    143: "device initialisation failed",
    154: "the driver wants the device to be recovered",
}
"""None of these is a program's doing; the advice is a reset, a drain or a repair."""

_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)(?:, (.*))?")
_WORDS_CAP = 300


@dataclass(frozen=True)
class Xid:
    """One error the driver reported."""

    number: int
    words: str = ""
    """The kernel log's own, where it could be read. Made by the driver, about the program: data."""

    @property
    def whose(self) -> Whose:
        """Whose doing it is, as far as the number tells."""
        if self.number in DEVICE:
            return "device"
        return "program" if self.number in PROGRAM else "unclear"

    def __str__(self) -> str:
        meaning = DEVICE.get(self.number) or PROGRAM.get(self.number) or "see NVIDIA's catalogue of Xid errors"
        return f"Xid {self.number} ({meaning})" + (f": {self.words}" if self.words else "")


def parse_kernel_line(line: str, bus: str | None = None) -> Xid | None:
    """The error that a line of the kernel's log reports, of the device at ``bus`` (domain:bus:device) where given."""
    found = _LINE.search(line)
    if found is None or (bus is not None and _bus(found[1]) != _bus(bus)):
        return None
    return Xid(int(found[2]), (found[3] or "").strip()[:_WORDS_CAP])


def _bus(text: str) -> tuple[int, ...]:
    """Numbers of a PCI address, without the function: drivers write it with and without, and pad it differently."""
    return tuple(int(part, 16) for part in text.partition(".")[0].split(":"))
