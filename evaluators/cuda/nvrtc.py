"""Compiling the judge's own kernels: NVRTC, by ctypes, without a GPU; some 50 ms."""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from evaluators.errors import UsageError

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def find_library() -> Any:
    """NVRTC: in the linker's path, in the wheels of NVIDIA, or in a toolkit.

    Raises:
        UsageError: there is none.
    """
    candidates = [*_NAMES]
    spec = importlib.util.find_spec("nvidia")
    for root in [*(spec.submodule_search_locations or () if spec else ()), "/usr/local/cuda"]:
        candidates += sorted(str(p) for p in Path(root).glob("**/libnvrtc.so.*[0-9]"))
    for name in candidates:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise UsageError("no NVRTC found: install the CUDA toolkit, or pip install nvidia-cuda-nvrtc")


def compile_cubin(source: Path, arch: str) -> bytes:
    """Compile a trusted file for one architecture.

    Raises:
        UsageError: there is no NVRTC, or this one does not know the architecture.
    """
    library = find_library()
    program = c_void_p()
    library.nvrtcCreateProgram(byref(program), c_char_p(source.read_bytes()), source.name.encode(), 0, None, None)
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
    code = library.nvrtcCompileProgram(program, c_int(len(options)), (c_char_p * len(options))(*options))
    if code != 0:
        size = c_size_t()
        library.nvrtcGetProgramLogSize(program, byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise UsageError(f"NVRTC cannot compile {source.name} for {arch}: {log.value.decode(errors='replace')[:500]}")
    size = c_size_t()
    library.nvrtcGetCUBINSize(program, byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, cubin)
    library.nvrtcDestroyProgram(byref(program))
    return cubin.raw
