"""What else goes on on the machine, by the kernel's own account."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from benchmarks.noise.records import Machine

_IDLE, _WAITING, _STOLEN = 3, 4, 7  # proc(5): fields of the first line of /proc/stat


def watch() -> Callable[[], Machine]:
    """Begin to look; what is returned says what there was since."""
    before = _ticks()

    def seen() -> Machine:
        spent = [after - ticks for after, ticks in zip(_ticks(), before, strict=True)]
        total = max(sum(spent), 1)
        idle = spent[_IDLE] + spent[_WAITING]
        return Machine(os.getloadavg()[0], 1 - idle / total, spent[_STOLEN] / total)

    return seen


def _ticks() -> list[int]:
    return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
