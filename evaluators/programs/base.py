"""The seam between a runner and the languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from evaluators.status import Status

Call = Callable[[], None]


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
