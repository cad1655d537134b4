"""What this machine offers a judge, for people: cores, compilers, sandbox layers, accelerators, measured ceilings."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from evaluators.baseline_cache import describe_cache
from evaluators.build import Builds
from evaluators.ceilings import Ceilings, measure_ceilings
from evaluators.cuda.toolbox import describe_tools
from evaluators.device import Cpu, find_cpu
from evaluators.device_lock import DeviceLock
from evaluators.environment import compiler_version
from evaluators.errors import EvaluatorsError
from evaluators.failure import CandidateFailure
from evaluators.judge import PRELOAD, THREADS
from evaluators.sandbox.report import SandboxReport
from evaluators.scratch import scratch_folder
from evaluators.zygote.client import Zygote

NO_COMPILER = "none"
_QUERY_DEADLINE_S = 10.0


@dataclass(frozen=True)
class Host:
    """Facts about this machine."""

    cpu: Cpu
    compiler: str
    """The C++ compiler's own first line, or ``none``."""
    nvcc: str
    """The CUDA compiler's release, or ``none``."""
    gpus: tuple[str, ...]
    sandbox: SandboxReport | None
    """``None`` where no sandboxed process could be started at all."""
    ceilings: Ceilings | None
    """The best this device was seen to do; ``None`` where it was not or could not be measured."""
    problem: str = ""
    """Why something above is missing, one line."""
    tools: tuple[tuple[str, str], ...] = ()
    """NVIDIA's profilers and sanitizers, each with what was found of it."""
    cache: str = ""
    """Where judges on a GPU leave what the next ones may use of their baselines, one line."""


def inspect_host(*, measure: bool = True) -> Host:
    """Look at this machine; with ``measure`` also run our own programs on it, which takes a few seconds."""
    cpu, compiler = find_cpu(), compiler_version()
    sandbox: SandboxReport | None = None
    ceilings: Ceilings | None = None
    problem = ""
    try:
        preload = (*PRELOAD, THREADS)  # every core is used
        with scratch_folder() as scratch, Zygote(minimum="none", scratch=scratch, preload=preload) as zygote:
            sandbox = zygote.layers
            if measure and compiler != NO_COMPILER:
                ceilings = _measure(zygote, Builds(zygote, scratch, frozenset(cpu.cores)), cpu)
    except (EvaluatorsError, CandidateFailure, OSError) as error:
        problem = " ".join(str(error).split())
    uuids = _ask("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
    tools = tuple(describe_tools(uuids, measure=measure))
    return Host(cpu, compiler, _nvcc(), _gpus(), sandbox, ceilings, problem, tools, describe_cache())


def _measure(zygote: Zygote, builds: Builds, cpu: Cpu) -> Ceilings:
    device = DeviceLock("cpu")
    try:
        with device.held():
            cores = frozenset(cpu.cores)
            return measure_ceilings(zygote, builds, len(cores), cores, cpu.last_level_cache_bytes)
    finally:
        device.close()


def _gpus() -> tuple[str, ...]:
    """The driver's own names of the NVIDIA GPUs here."""
    return tuple(line.strip() for line in _ask("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"))


def _nvcc() -> str:
    lines = _ask("nvcc", "--version")
    return next((line.strip() for line in lines if "release" in line), NO_COMPILER)


def _ask(program: str, *arguments: str) -> list[str]:
    path = shutil.which(program)
    if path is None:
        return []
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, check=False, timeout=_QUERY_DEADLINE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
