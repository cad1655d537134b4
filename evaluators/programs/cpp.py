"""Runs a shared object with a C entry."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from evaluators.programs.base import Admitted, Call, NativeCall
from evaluators.status import Status


def open_entry(path: str, entry: str) -> Any:
    """The C function ``entry`` of a shared object.

    Raises:
        Admitted: it cannot be loaded, or has no such function.
    """
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise Admitted(Status.BUILD_ERROR, f"cannot load: {error}") from None
    try:
        function = library[entry]
    except AttributeError:
        raise Admitted(Status.BUILD_ERROR, f'no function extern "C" {entry} in the shared object') from None
    function.restype = None
    return function


class CppProgram:
    """A shared object with a C entry over host memory."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._entry = open_entry(payload["artifact"], payload["entry"])

    def bind(self, arrays: list[np.ndarray], writable: list[bool], scalars: tuple[int, ...]) -> Call:
        """A call over fixed buffers."""
        del writable
        address = ctypes.cast(self._entry, ctypes.c_void_p).value or 0
        return NativeCall(self._entry, address, (*(a.ctypes.data for a in arrays), *scalars))


load = CppProgram
