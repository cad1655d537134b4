"""Runs a Triton program on the kernels its builder compiled; one that is not among them fails it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import torch
from triton import knobs
from triton.runtime.cache import FileCacheManager

from evaluators.cuda.driver import Driver
from evaluators.programs.torch import TorchProgram


class BuiltKernels(FileCacheManager):  # type: ignore[misc]
    """Triton's cache as the builder left it: read-only, wherever it lies now."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        del override, dump
        self.key = key
        self.lock_path = None
        self.cache_dir = os.path.join(knobs.cache.dir, key)

    def get_group(self, filename: str) -> dict[str, str]:
        """The files of one kernel, by their names in this folder; refuses others now, before Triton compiles them."""
        if not self.has_file(filename):
            raise _unknown(filename)
        return {name: self._make_path(name) for name in self._names() if not name.startswith("__grp__")}

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Refuse."""
        del data, binary
        raise _unknown(filename)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.cache_dir)
        except OSError:
            return []


def _unknown(filename: str) -> RuntimeError:
    return RuntimeError(
        f"{filename} is not among the kernels that were compiled before: launch the same kernels with the same "
        "constants for every call of a shape, and allocate with empty_like or device=x.device"
    )


def load(payload: Mapping[str, Any], driver: Driver, stream: int) -> TorchProgram:
    """Import the program over its builder's kernels."""
    os.environ["TRITON_CACHE_DIR"] = payload["artifact"]
    knobs.cache.manager_class = BuiltKernels
    return TorchProgram(payload, driver, stream)


def warm() -> None:
    """In the zygote: what Triton and torch ask others, once; a child may start none and sees little of ``/proc``."""
    torch.zeros(1).to(torch.float16)  # asks what processor this is; calculations on the host fail without an answer
    from triton.backends.nvidia import compiler, driver  # noqa: PLC0415
    from triton.runtime import build, cache  # noqa: PLC0415

    build.platform_key()
    getattr(cache, "triton_key", lambda: "")()  # reads all of Triton, half a gigabyte, once in a process
    for arch in (80, 90, 100):
        compiler.get_ptxas_version(arch)
    try:
        driver.library_dirs()
    except (AssertionError, OSError):
        return  # no driver on this machine: nothing will be launched
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        driver.CudaUtils()  # compiles a C module, and loads it for good; no call of CUDA
        del os.environ["TRITON_CACHE_DIR"]
    tempfile.tempdir = None  # it remembers a folder that is not there in the sandbox
    driver.CudaUtils.__init__ = _already_there


def _already_there(self: object) -> None:
    """In place of the constructor of an object of which there is only one."""
