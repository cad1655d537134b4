"""Runs a Python function over NumPy arrays."""

from __future__ import annotations

import linecache
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from evaluators.programs.base import Admitted, Call
from evaluators.status import Status

FILE_NAME = "candidate.py"


def import_entry(source: str, entry: str) -> Callable[..., object]:
    """Run a source text as a module and return its entry.

    Raises:
        Admitted: it does not compile, or has no such function.
    """
    linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(keepends=True), FILE_NAME)
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Admitted(Status.BUILD_ERROR, "".join(traceback.format_exception_only(error))) from None
    _seed_global_generators()
    module = ModuleType("candidate")
    sys.modules["candidate"] = module
    module.__dict__["__file__"] = FILE_NAME
    exec(code, module.__dict__)
    function = getattr(module, entry, None)
    if not callable(function):
        raise Admitted(Status.BUILD_ERROR, f"no function {entry} in the source")
    found: Callable[..., object] = function
    return found


def _seed_global_generators() -> None:
    """A program that draws without a seed of its own gives the same answer every time."""
    random.seed(0)
    numpy_random = sys.modules.get("numpy.random")  # there where the task grants NumPy: the zygote has loaded it
    if numpy_random is not None:
        numpy_random.seed(0)


class PythonProgram:
    """A Python function that fills its outputs in place or returns them."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._entry = import_entry(payload["source"], payload["entry"])

    def bind(self, arrays: list[np.ndarray], writable: list[bool], scalars: tuple[int, ...]) -> Call:
        """A call over fixed buffers; what it returns is copied into the outputs after a check of shape and dtype."""
        outputs = [a for a, w in zip(arrays, writable, strict=True) if w]
        args = (*arrays, *scalars)
        entry = self._entry

        def call() -> None:
            returned = entry(*args)
            if returned is not None:
                _store(returned, outputs)

        return call


def _store(returned: object, outputs: list[np.ndarray]) -> None:
    values = returned if isinstance(returned, tuple) else (returned,)
    if len(values) != len(outputs):
        raise Admitted(Status.WRONG_SHAPE, f"returned {len(values)} outputs, the task has {len(outputs)}")
    for value, output in zip(values, outputs, strict=True):
        array = np.asarray(value)
        if array.shape != output.shape:
            raise Admitted(Status.WRONG_SHAPE, f"returned shape {array.shape}, the task wants {output.shape}")
        if array.dtype != output.dtype:
            raise Admitted(Status.WRONG_DTYPE, f"returned dtype {array.dtype}, the task wants {output.dtype}")
        output[...] = array


load = PythonProgram
