"""Runs a Triton program on the host, kernel by kernel in Triton's interpreter: right or wrong, without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from evaluators.builders.triton import DEFAULT_ARCH
from evaluators.builders.triton_interception import stand_in_device
from evaluators.programs import interpreted_bf16
from evaluators.programs.base import Call
from evaluators.programs.python import import_entry
from evaluators.programs.tensors import TORCH_DTYPES
from evaluators.programs.torch import store_returned


class InterpretedProgram:
    """``def ENTRY(tensors, axes)`` over tensors in host memory, whose launches are interpreted."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._dtypes = [TORCH_DTYPES[name] for name in payload["dtypes"]]
        self._patches = ExitStack()  # held for as long as the process lives
        for patch in stand_in_device(DEFAULT_ARCH):
            self._patches.enter_context(patch)
        interpret_kernels()
        interpreted_bf16.install()
        Autotuner.run = _first_configuration
        self._entry = import_entry(payload["source"], payload["entry"])

    def bind(self, arrays: list[np.ndarray], writable: list[bool], scalars: tuple[int, ...]) -> Call:
        """A call over fixed buffers. Inputs are copied, since the interpreter writes back what it was given."""
        entry, dtypes = self._entry, self._dtypes

        def call() -> None:
            tensors = [
                torch.from_numpy(array if writes else array.copy()).view(dtype)
                for array, writes, dtype in zip(arrays, writable, dtypes, strict=True)
            ]
            returned = entry(*tensors, *scalars)
            if returned is not None:
                store_returned(returned, [t for t, writes in zip(tensors, writable, strict=True) if writes])

        return call


def interpret_kernels() -> None:
    """Have kernels interpreted from now on, those of Triton's own language that were read in before included."""
    knobs.runtime.interpret = True
    made: dict[int, InterpretedFunction] = {}
    for name in [name for name in sys.modules if f"{name}.".startswith("triton.language.")]:
        for key, value in list(vars(sys.modules[name]).items()):
            if isinstance(value, JITFunction):
                function = made.setdefault(id(value), InterpretedFunction(value.fn))
                setattr(sys.modules[name], key, function)


def _first_configuration(self: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of an autotuner's measurements: what is right does not depend on what is fast."""
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    config = next(iter(self.prune_configs(kwargs)))
    return self.fn.run(*args, **kwargs, **config.all_kwargs())


load = InterpretedProgram
