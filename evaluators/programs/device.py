"""The seam between a GPU runner and the languages: programs whose arguments lie in device memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluators.programs.base import Call


@dataclass(frozen=True)
class DevicePlace:
    """One argument of one call."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    writable: bool


class DeviceProgram(Protocol):
    """An imported program that works on a stream of its runner's."""

    def bind(self, places: Sequence[DevicePlace], scalars: tuple[int, ...]) -> Call:
        """A call over fixed buffers; it launches and need not wait."""
        ...

    def allocations(self) -> int | None:
        """How often the program has taken device memory; ``None`` where nobody counts."""
        ...

    def capture(self, calls: Sequence[Call]) -> Call:
        """All these calls recorded as one graph, to be launched at once.

        Raises:
            Exception: the program does something that cannot be recorded; it is then run call by call.
        """
        ...
