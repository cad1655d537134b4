"""Opening a judge for tasks in Triton or CUDA: on this machine's GPU, or without one for compilation alone."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from evaluators.baseline_cache import open_baseline_cache
from evaluators.build import Builds
from evaluators.calibration import Bench, build_baselines
from evaluators.check_set import MAKERS, CheckSet, Makers
from evaluators.client import SandboxMode
from evaluators.compiling import NO_GPU, CompilingJudge
from evaluators.cuda.device import Gpu, GpuLock
from evaluators.cuda.health import refuse_quarantined
from evaluators.cuda.nvml import driver_version
from evaluators.cuda.oracle import with_device_oracle
from evaluators.cuda.platform import CudaPlatform
from evaluators.device import Cpu
from evaluators.device_account import Watch, unwatched
from evaluators.environment import describe_environment
from evaluators.errors import JudgeError, UsageError
from evaluators.evaluation import Environment
from evaluators.interpreter import Interpreter
from evaluators.kernel import KernelJudge
from evaluators.priority import Priority
from evaluators.reference import load_reference
from evaluators.scratch import fresh_folder, scratch_folder
from evaluators.surprise import Surprises
from evaluators.task import Language, Task
from evaluators.tolerance import load_lock
from evaluators.zygote.client import Zygote

GPU_LANGUAGES: frozenset[Language] = frozenset({"triton", "cuda", "torch"})
_BASE = (
    "numpy",
    "evaluators.builder",
    "evaluators.builders.cpp",
    "evaluators.builders.cuda",
    "evaluators.builders.triton",
)
_TORCH = (
    "torch",
    "triton",
    "evaluators.builders.triton_interception",
    "evaluators.programs.torch",
    "evaluators.programs.triton",
    "evaluators.programs.triton:warm",
)
MOST_MAKERS = 8
"""Threads that make inputs: each of them holds several arrays of the largest workload."""
CORES_FOR_ROUNDS, LEAST_CORES_APART = 4, 8
"""Judge and runners launch and wait for the device; compilers leave them so many cores where there are enough."""
LEAST_BUILDS = 2
SWITCH_S = 0.0005
"""A thread that makes inputs or waits for a compiler holds up the one that has the device for no longer than this."""
_RUNNING = ("evaluators.cuda.runner", "evaluators.cuda.become", "evaluators.programs.cuda", *_BASE)
_INTERPRETING = ("evaluators.runner", "evaluators.programs.interpreted")
"""What a machine without a GPU runs Triton programs by."""
_LIBRARIES = ("torch", "triton", "numpy", "nvidia-cuda-nvrtc")


def preload(task: Task, *, interprets: bool = False) -> tuple[str, ...]:
    """What a zygote for this task imports: torch and Triton only where its programs need them.

    Raises:
        UsageError: they are not installed.
    """
    wanted = {*task.languages, *(b.language for b in task.baselines)}
    if not wanted & {"triton", "torch"}:
        return _RUNNING
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"task {task.name} needs {' and '.join(missing)}: pip install -e '.[gpu]' in the clone")
    return (*_RUNNING, *_TORCH, *(_INTERPRETING if interprets else ()))


@contextmanager
def open_gpu_judge(
    task: Task, sandbox: SandboxMode, cpu: Cpu, priority: Priority, target: str | None = None, watch: Watch = unwatched
) -> Iterator[tuple[KernelJudge | CompilingJudge, Environment]]:
    """A judge on the first GPU, or one that only compiles where there is none or where a target is asked for.

    Raises:
        UsageError: torch, Triton or a compiler is missing, or the sandbox is below the minimum.
    """
    gpu = find_gpu() if target is None else None
    if gpu is not None:
        refuse_quarantined(gpu.driver.uuid())
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        devices = gpu.nodes() if gpu else ()
        modules = preload(task, interprets=gpu is None)
        zygote = stack.enter_context(Zygote(minimum=sandbox, scratch=scratch, preload=modules, devices=devices))
        environment = describe_gpu(describe_environment(task, cpu, zygote.layers.level, priority), gpu)
        apart = builder_cores(cpu) != frozenset(cpu.cores)
        arch = gpu.arch if gpu else target
        builds = Builds(
            zygote,
            scratch,
            builder_cores(cpu),
            arch,
            beside_rounds=gpu is not None and apart,
            at_once=builds_at_once(cpu),
            watch=watch,
        )
        if gpu is None:
            interpreter = Interpreter(task, zygote, scratch) if "triton" in task.languages else None
            why = NO_GPU if target is None else f"target {target} was asked for"
            yield CompilingJudge(task, builds, environment, interpreter, why), environment
            return
        rounds_core = core_for_rounds(cpu, gpu) if apart else None
        platform = CudaPlatform(gpu, zygote, scratch, builds, frozenset(cpu.cores), rounds_core=rounds_core)
        stack.callback(platform.close)
        device = GpuLock(gpu, watch)
        sys.setswitchinterval(SWITCH_S)
        judge = _on_device(task, platform, device, builds, environment, scratch, builder_cores(cpu))
        stack.callback(judge.close)
        yield judge, environment


def builder_cores(cpu: Cpu) -> frozenset[int]:
    """Where compilers run: beside the judge and its runners where there are cores enough, else where all run."""
    apart = len(cpu.cores) >= LEAST_CORES_APART
    return frozenset(cpu.cores[CORES_FOR_ROUNDS:] if apart else cpu.cores)


def core_for_rounds(cpu: Cpu, gpu: Gpu) -> int:
    """The core on which rounds on this GPU are played: another one for each of several GPUs, as far as they go."""
    return cpu.cores[CORES_FOR_ROUNDS - 1 - gpu.number % CORES_FOR_ROUNDS]


def builds_at_once(cpu: Cpu) -> int:
    """How many programs are built at a time: each starts several processes, and all of them take memory's bandwidth."""
    return max(len(builder_cores(cpu)) // 2, LEAST_BUILDS)


def find_gpu() -> Gpu | None:
    """The first visible GPU; ``None`` where there is no driver or no device."""
    try:
        return Gpu.open(0)
    except JudgeError:
        return None


def describe_gpu(environment: Environment, gpu: Gpu | None) -> Environment:
    """The same machine with its GPU, driver and libraries."""
    host = {**environment.host, **_versions()}
    if gpu is None:
        return environment.model_copy(update={"device_class": "no-gpu", "host": host})
    host |= {"gpu": gpu.name, "gpu_uuid": gpu.driver.uuid(), "cuda_driver": gpu.driver.version(), "arch": gpu.arch}
    return environment.model_copy(update={"device_class": f"{gpu.arch}:{gpu.name}", "host": host})


def _on_device(
    task: Task,
    platform: CudaPlatform,
    device: GpuLock,
    builds: Builds,
    environment: Environment,
    scratch: Path,
    makers_cores: frozenset[int],
) -> KernelJudge:
    reference, lock = with_device_oracle(load_reference(task)), load_lock(task)
    with device.held():
        ceilings = platform.measure_ceilings(task)
        baselines = build_baselines(task, builds)
    rng = np.random.default_rng(secrets.randbits(128))
    makers = Makers(max(min(platform.workers // 2, MOST_MAKERS), MAKERS), makers_cores)
    checks = CheckSet(reference, fresh_folder(scratch), rng, whole_ordinary=False, makers=makers)
    bench = Bench(
        task, reference, lock, builds, platform.cache_bytes, ceilings, checks, Surprises(reference, checks), baselines
    )
    bench.cache = open_baseline_cache(task, environment, driver_version(), baselines.values(), scratch)
    return KernelJudge(bench, platform, device, environment)


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
