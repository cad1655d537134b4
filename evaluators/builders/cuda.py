"""Builds CUDA C++ with nvcc into a shared object for one device architecture.

The entry is host code that launches kernels (``extern "C" void ENTRY(..., cudaStream_t stream)``), so a device-only
compiler such as NVRTC will not do, although it is twenty times faster.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluators.builders.base import BuildRefused, BuildTarget
from evaluators.builders.resources import count_instructions, dump, find_tool, parse_usage, summary
from evaluators.builders.sass import disassemble
from evaluators.errors import UsageError

DEFAULT_ARCH = "sm_90"
FEATURES = {"sm_90": "90a", "sm_100": "100a"}
"""Architectures whose own instructions (wgmma, tcgen05) need the target with an ``a``."""
SHARED_OBJECT, PTX, SASS, USAGE = "candidate.so", "candidate.ptx", "candidate.sass", "resources.txt"


def find_nvcc() -> str:
    """The CUDA compiler.

    Raises:
        UsageError: there is none.
    """
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if found is None:
        raise UsageError("no CUDA compiler found: install the CUDA toolkit (nvcc), or use a task without cuda programs")
    return found


def compile_command(nvcc: str, arch: str, flags: list[str]) -> list[str]:
    """The command line of a build; ``-keep`` leaves the PTX."""
    number = FEATURES.get(arch, arch.removeprefix("sm_"))
    target = f"-gencode=arch=compute_{number},code=sm_{number}"
    host = ["-shared", "-Xcompiler=-fPIC,-fdiagnostics-color=never", "-cudart=static"]
    return [nvcc, "-std=c++17", "-O3", target, *host, *flags, "-keep", "-o", SHARED_OBJECT, "candidate.cu"]


class CudaBuilder:
    """Builds CUDA C++."""

    source_name = "candidate.cu"
    artifact = SHARED_OBJECT
    texts: tuple[str, ...] = (PTX,)
    report_texts: tuple[str, ...] = (USAGE, SASS)
    runs_source = False
    takes_flags = True

    @property
    def packages(self) -> tuple[str, ...]:
        """Triton's, for the disassembler in it."""
        return ("triton",) if importlib.util.find_spec("triton") else ()

    def order(self, target: BuildTarget) -> dict[str, Any]:
        """Compiler, architecture, flags and disassembler."""
        arch = target.arch or DEFAULT_ARCH
        if not arch.startswith("sm_"):
            raise UsageError(f"target {arch}: CUDA programs are built for NVIDIA's alone; use sm_80, sm_90 or sm_100")
        tools = {name: find_tool(name) for name in ("cuobjdump", "nvdisasm")}
        return {"nvcc": find_nvcc(), "arch": arch, "flags": list(target.flags), **tools}

    def build(self, work: Path, order: Mapping[str, Any]) -> None:
        """One compiler run."""
        command = compile_command(order["nvcc"], order["arch"], order["flags"])
        done = subprocess.run(command, cwd=work, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise BuildRefused

    def report(self, work: Path, built: Path, order: Mapping[str, Any]) -> dict[str, float]:
        """Resources, and the instructions of what the compiler kept beside the shared object."""
        if order["cuobjdump"] is None:
            return {}
        usage = dump([order["cuobjdump"], "--dump-resource-usage"], built)
        (work / USAGE).write_text(usage)
        cubins = [path.read_bytes() for path in sorted(work.glob("candidate*.cubin"))]
        listings = disassemble(order["nvdisasm"], order["arch"], work, cubins)
        if listings is None:
            return summary(parse_usage(usage), None)
        sass = "".join(listings)
        (work / SASS).write_text(sass)
        return summary(parse_usage(usage), count_instructions(sass.splitlines()))


BUILDER = CudaBuilder()
