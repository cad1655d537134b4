"""The seam between a runner and the languages."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evaluators.status import Status

Call = Callable[[], None]


@dataclass(frozen=True)
class NativeCall:
    """A call of a C function over fixed buffers, which native code can make without Python."""

    function: Any
    address: int
    """The function's."""
    arguments: tuple[int, ...]
    """Pointers and 64-bit integers."""

    def __call__(self) -> None:
        """Make the call from Python."""
        self.function(*map(ctypes.c_int64, self.arguments))


class Admitted(Exception):
    """A failure this runner says of itself."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class Program(Protocol):
    """An imported program whose arguments lie in host memory."""

    def bind(self, arrays: list[np.ndarray], writable: list[bool], scalars: tuple[int, ...]) -> Call:
        """A call over fixed buffers."""
        ...
