"""Runs inside a builder's process: imports a Triton program and compiles what it would launch."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver as nvidia
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from evaluators.programs.base import Admitted
from evaluators.programs.python import import_entry
from evaluators.programs.tensors import TORCH_DTYPES

DEVICES: dict[str, dict[str, int]] = {
    "sm_80": {"multi_processor_count": 108, "max_shared_mem": 166_912},
    "sm_90": {"multi_processor_count": 132, "max_shared_mem": 232_448},
    "sm_100": {"multi_processor_count": 148, "max_shared_mem": 232_448},
}
"""What a program that asks for its device is told while it is compiled: A100, H100 and H200, B200."""
_WARP = {"max_num_regs": 65_536, "warpSize": 32, "warp_size": 32, "max_threads_per_multi_processor": 2048}


MOST_COMPILERS = 4
"""At once in one builder, whose memory they share."""


class Refused(Exception):
    """The program cannot be compiled; the text says why."""


class StandInDriver:
    """Takes the place of Triton's driver where there is no device: only the target matters to the compiler."""

    def __init__(self, target: GPUTarget, facts: Mapping[str, int]) -> None:
        self._target = target
        self.utils = SimpleNamespace(get_device_properties=lambda device: dict(facts))

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """The one device."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        del device
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Where tensors lie while compiling."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Torch's module for the device."""
        return torch.cuda

    def map_python_to_cpp_type(self, ty: str) -> str:
        """As the real driver says."""
        name: str = nvidia.ty_to_cpp(ty)
        return name


def parse_target(arch: str) -> GPUTarget:
    """``sm_90`` or ``gfx942`` as Triton's target."""
    if arch.startswith("gfx"):
        return GPUTarget("hip", arch, 64)
    return GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)


def compile_launches(source: str, order: Mapping[str, Any]) -> list[Any]:
    """Compile every kernel that the program launches in the order's calls; returns them, each once.

    Raises:
        Refused: it cannot be imported, a call of its entry raised, or a kernel does not compile.
    """
    arch = order["arch"]
    launched: list[Any] = []
    try:
        with ExitStack() as stack:
            for patch in (*stand_in_device(arch), *_interceptions(launched)):
                stack.enter_context(patch)
            entry = import_entry(source, order["entry"])
            _compile_ahead(entry, order["calls"])
            for call in order["calls"]:
                _call(entry, call)
    except Admitted as admitted:
        raise Refused(str(admitted)) from None
    except Exception as error:  # a candidate's code: whatever it raises is what it has to say
        raise Refused("".join(traceback.format_exception(error, limit=-5))) from None
    if not launched:
        raise Refused(f"error: {order['entry']} launched no Triton kernel on tensors of the task's shapes")
    kernels = {kernel.hash: kernel for kernel in launched}
    if hasattr(nvidia, "make_launcher") and not arch.startswith("gfx"):
        _build_launchers(kernels.values())
    return list(kernels.values())


def _compile_ahead(entry: Callable[..., object], calls: Sequence[Mapping[str, Any]]) -> None:
    """Make the calls in a process that is thrown away, and compile each kernel that they launch in one of its own.

    Several at once; what they compile lies in the cache afterwards. Whatever goes wrong in one of them goes wrong again
    where it is reported.
    """
    most = min(len(os.sched_getaffinity(0)), MOST_COMPILERS)
    if most == 1:
        return
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _compile_apart(entry, calls, most)
        os._exit(0)
    os.waitpid(child, 0)


def _compile_apart(entry: Callable[..., object], calls: Sequence[Mapping[str, Any]], most: int) -> None:
    compile_one = JITFunction.run
    known: set[object] = set()
    running: set[int] = set()

    def compile_in_a_fork(self: Any, *args: Any, **kwargs: Any) -> None:
        kind = _kind(self, args, kwargs)
        if kind in known:
            return
        known.add(kind)
        if len(running) == most:
            running.discard(os.wait()[0])
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                compile_one(self, *args, **kwargs)
            os._exit(0)
        running.add(child)

    with mock.patch.object(JITFunction, "run", compile_in_a_fork):
        for call in calls:
            with contextlib.suppress(Exception):
                _call(entry, call)
    while running:
        running.discard(os.wait()[0])


def _kind(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
    """What Triton compiles a launch for, nearly: where two kinds are one kernel it is only compiled twice."""
    named = {**dict(zip(function.arg_names, args, strict=False)), **kwargs}
    constants = {param.name for param in function.params if param.is_constexpr}
    plain = {name for name in function.arg_names if name not in constants}
    return id(function), *(
        (name, _specialised(value) if name in plain else repr(value)) for name, value in named.items() if name != "grid"
    )


def _specialised(value: Any) -> object:
    """An argument as far as the compiler looks at it: types, divisibility by 16, and whether it is 1."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value == 1, value % 16 == 0, value.bit_length() // 32
    return repr(value)


def _call(entry: Callable[..., object], call: Mapping[str, Any]) -> None:
    # Uninitialised host memory is not touched before somebody writes it, so real shapes cost nothing.
    arrays = [torch.empty(tuple(shape), dtype=TORCH_DTYPES[dtype]) for dtype, shape in call["arrays"]]
    entry(*arrays, *call["scalars"])


def _interceptions(launched: list[Any]) -> list[Any]:
    """Launches compile and do not run; an autotuner compiles every configuration and measures none."""
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        del warmup
        kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        launched.append(kernel)
        return kernel

    def every_configuration(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        for config in self.prune_configs(kwargs):
            kernel = self.fn.run(*args, **kwargs, **config.all_kwargs())
        return kernel

    return [
        mock.patch.object(JITFunction, "run", compile_only),
        mock.patch.object(Autotuner, "run", every_configuration),
    ]


def stand_in_device(arch: str) -> list[Any]:
    """Give Triton a driver of a device that is not there; returns patches that have torch tell of the same."""
    facts = {**_WARP, **DEVICES.get(arch, DEVICES["sm_90"])}
    triton.runtime.driver.set_active(StandInDriver(parse_target(arch), facts))
    properties = SimpleNamespace(**facts, major=9, minor=0, name=arch)
    return [
        mock.patch.object(torch.cuda, "get_device_properties", return_value=properties),
        mock.patch.object(torch.cuda, "get_device_capability", return_value=_capability(arch)),
        mock.patch.object(torch.cuda, "current_device", return_value=0),
        mock.patch.object(torch.cuda, "synchronize", return_value=None),
    ]


def _capability(arch: str) -> tuple[int, int]:
    number = int(arch.removeprefix("sm_")) if arch.startswith("sm_") else 90
    return number // 10, number % 10


def _build_launchers(kernels: Iterable[Any]) -> None:
    """Triton up to 3.6 compiles a small C module for each signature at the first launch: leave it in the cache."""
    try:
        nvidia.library_dirs()
    except (AssertionError, OSError):
        return  # no driver library on this machine, so nothing will be launched here
    for kernel in kernels:
        nvidia.CudaLauncher(kernel.src, kernel.metadata)
