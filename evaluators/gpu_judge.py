"""Opening a judge for tasks in Triton or CUDA: on this machine's GPU, or without one for compilation alone."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from evaluators.build import Builds
from evaluators.calibration import Bench, build_baselines
from evaluators.check_set import CheckSet
from evaluators.client import SandboxMode
from evaluators.compiling import CompilingJudge
from evaluators.cuda.device import Gpu
from evaluators.cuda.platform import CudaPlatform
from evaluators.device import Cpu
from evaluators.device_lock import DeviceLock
from evaluators.environment import describe_environment
from evaluators.errors import JudgeError, TaskError, UsageError
from evaluators.evaluation import Environment
from evaluators.kernel import KernelJudge
from evaluators.priority import Priority
from evaluators.reference import load_reference
from evaluators.scratch import fresh_folder, scratch_folder
from evaluators.task import Language, Task
from evaluators.tolerance import load_lock
from evaluators.zygote.client import Zygote

GPU_LANGUAGES: frozenset[Language] = frozenset({"triton", "cuda", "torch"})
_BASE = ("numpy", "evaluators.builder", "evaluators.builders.cuda", "evaluators.builders.triton")
_TORCH = (
    "torch",
    "triton",
    "evaluators.builders.triton_interception",
    "evaluators.builders.triton_report",
    "evaluators.programs.torch",
    "evaluators.programs.triton",
    "evaluators.programs.triton:warm",
)
_RUNNING = ("evaluators.cuda.runner", "evaluators.programs.cuda", *_BASE)
_LIBRARIES = ("torch", "triton", "numpy", "nvidia-cuda-nvrtc")


def preload(task: Task) -> tuple[str, ...]:
    """What a zygote for this task imports: torch and Triton only where its programs need them.

    Raises:
        UsageError: they are not installed.
    """
    wanted = {*task.languages, *(b.language for b in task.baselines)}
    if not wanted & {"triton", "torch"}:
        return _RUNNING
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"task {task.name} needs {' and '.join(missing)}: pip install kernel-evolve[gpu]")
    return (*_RUNNING, *_TORCH)


@contextmanager
def open_gpu_judge(
    task: Task, sandbox: SandboxMode, cpu: Cpu, priority: Priority
) -> Iterator[tuple[KernelJudge | CompilingJudge, Environment]]:
    """A judge on the first GPU, or one that only compiles where there is none.

    Raises:
        UsageError: torch, Triton or a compiler is missing, or the sandbox is below the minimum.
    """
    _refuse_changed_in_place(task)
    gpu = find_gpu()
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        devices = gpu.nodes() if gpu else ()
        zygote = stack.enter_context(Zygote(minimum=sandbox, scratch=scratch, preload=preload(task), devices=devices))
        environment = describe_gpu(describe_environment(task, cpu, zygote.layers.level, priority), gpu)
        builds = Builds(zygote, scratch, frozenset(cpu.cores), gpu.arch if gpu else None)
        if gpu is None:
            yield CompilingJudge(task, builds, environment), environment
            return
        judge = _on_device(task, CudaPlatform(gpu, zygote, scratch), builds, environment, scratch)
        stack.callback(judge.close)
        yield judge, environment


def _refuse_changed_in_place(task: Task) -> None:
    changed = next((arg.name for arg in task.args if arg.role == "inout"), None)
    if changed is not None:
        raise TaskError(
            f"task {task.name}: args: {changed!r} has role 'inout', which a judge on a GPU does not fill yet; "
            "make it an 'in' and an 'out'"
        )


def find_gpu() -> Gpu | None:
    """The first visible GPU; ``None`` where there is no driver or no device."""
    try:
        return Gpu(0)
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
    task: Task, platform: CudaPlatform, builds: Builds, environment: Environment, scratch: Path
) -> KernelJudge:
    reference, lock = load_reference(task), load_lock(task)
    device = DeviceLock(platform.gpu.driver.uuid())
    with device.held():
        ceilings = platform.measure_ceilings(task)
        baselines = build_baselines(task, builds)
    rng = np.random.default_rng(secrets.randbits(128))
    checks = CheckSet(reference, fresh_folder(scratch), rng, whole_ordinary=False)
    bench = Bench(task, reference, lock, builds, platform.cache_bytes, ceilings, checks, baselines)
    return KernelJudge(bench, platform, device, environment)


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
