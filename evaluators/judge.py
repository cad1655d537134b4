"""The judge's process: holds seeds, oracle, limits, clock and verdict, and runs no byte of a candidate."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from evaluators.blas import LIBRARIES
from evaluators.build import Builds
from evaluators.builders.cpp import find_compiler
from evaluators.calibration import Bench, WorkloadCalibration, build_baselines
from evaluators.check_set import CheckSet
from evaluators.client import ERROR_KINDS, SandboxMode
from evaluators.device import Cpu, find_cpu
from evaluators.device_account import DeviceNews, Watch, unwatched
from evaluators.device_lock import DeviceLock
from evaluators.environment import describe_environment
from evaluators.errors import JudgeError, TaskError, UsageError
from evaluators.evaluation import Duel, Environment, Evaluation
from evaluators.gpu_judge import GPU_LANGUAGES, open_gpu_judge
from evaluators.kernel import KernelJudge
from evaluators.lane import Lane
from evaluators.platform import CpuPlatform
from evaluators.priority import Priority, raise_priority
from evaluators.profile import Profile
from evaluators.reference import load_reference
from evaluators.scratch import fresh_folder, scratch_folder
from evaluators.surprise import Surprises
from evaluators.task import Language, Task
from evaluators.task_loading import load_task
from evaluators.tolerance import load_lock
from evaluators.value import ValueJudge
from evaluators.wire import Message, pack, read
from evaluators.zygote.client import Zygote

_PR_SET_PDEATHSIG = 1
_PYTHON = ("numpy", "evaluators.runner", "evaluators.programs.python")
_CPP = ("evaluators.builder", "evaluators.builders.cpp", "evaluators.programs.cpp")
PRELOAD = (*_PYTHON, *_CPP)
CLEARING_S = 0.5
"""What clearing away may take when the search has ended."""
THREADS = "evaluators.blas"
"""What runners of several threads need besides."""


class TaskJudge(Protocol):
    """Judges candidates of one task; what the process below serves."""

    def calibrate(self) -> None:
        """Measure what must be known before the first candidate."""
        ...

    def evaluate(self, source: str, language: Language) -> Evaluation:
        """See :class:`evaluators.client.Judge`."""
        ...

    def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """See :class:`evaluators.client.Judge`."""
        ...

    def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """See :class:`evaluators.client.Judge`."""
        ...

    def profile(self, source: str, language: Language) -> Profile | None:
        """See :class:`evaluators.client.Judge`."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


@contextmanager
def open_judge(
    task: Task,
    *,
    sandbox: SandboxMode,
    lanes: int,
    priority: Priority = "ordinary",
    target: str | None = None,
    watch: Watch = unwatched,
) -> Iterator[tuple[TaskJudge, Environment]]:
    """A judge for one task in this process, with its zygote below it.

    Args:
        task: what is judged.
        sandbox: the least sandbox to accept.
        lanes: evaluations in flight, for value-scored tasks.
        priority: what this process runs at, for the record.
        target: for tasks of a GPU: compile for this one, and time nothing.
        watch: told who has the device and who waits for it.

    Raises:
        UsageError: the task, the compiler or the sandbox is not as it must be.
    """
    cpu = find_cpu()
    if "cpp" in task.languages:
        find_compiler()
    if GPU_LANGUAGES & set(task.languages):
        with LIBRARIES.limit(limits=1), open_gpu_judge(task, sandbox, cpu, priority, target, watch) as opened:
            yield opened
        return
    if target is not None:
        raise TaskError(f"task {task.name} has no GPU programs: there is no target to choose")
    with LIBRARIES.limit(limits=1), ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        zygote = stack.enter_context(Zygote(minimum=sandbox, scratch=scratch, preload=preload_for(task)))
        environment = describe_environment(task, cpu, zygote.layers.level, priority)
        builds = Builds(zygote, scratch, frozenset(cpu.cores))
        if task.evaluator == "kernel":
            judge: TaskJudge = _kernel_judge(task, zygote, builds, cpu, environment, scratch, watch)
        else:
            judge = _value_judge(task, zygote, builds, cpu, environment, lanes, watch)
        stack.callback(judge.close)
        yield judge, environment


def _is_timed_here(task: Task) -> bool:
    """Whether rounds are a chain of wake-ups of the processor's threads, which real-time priority makes steadier.

    On a GPU a round is one wake-up, while whoever waits for the device spins: at real-time priority it would keep a
    core from the driver's kernel threads, which are of the ordinary class.
    """
    return task.metric == "time" and not GPU_LANGUAGES & set(task.languages)


def preload_for(task: Task) -> tuple[str, ...]:
    """What the zygote imports for a task: what every runner needs, and what many candidates of this task will.

    No more: a child pays for each page that runs differently from its parent's, and modules that are imported may ask
    to be run after every fork.
    """
    # Timed tasks have programs of our own in C++ whatever their language: the empty one, and those of the ceilings.
    cpp = _CPP if task.evaluator == "kernel" or "cpp" in task.languages else ()
    numpy = ("numpy.random", "numpy.linalg") if "numpy" in task.python_packages else ()
    threads = (THREADS,) if task.threads > 1 else ()
    return (*_PYTHON, *cpp, *numpy, *threads)


def _kernel_judge(
    task: Task, zygote: Zygote, builds: Builds, cpu: Cpu, environment: Environment, scratch: Path, watch: Watch
) -> KernelJudge:
    if len(cpu.cores) < task.threads:
        raise TaskError(f"task {task.name} wants {task.threads} threads; this process may use {len(cpu.cores)} cores")
    cpus = frozenset(cpu.cores[-task.threads :])
    platform = CpuPlatform(zygote, builds, cpus, cpu.last_level_cache_bytes)
    reference, lock = load_reference(task), load_lock(task)
    device = DeviceLock("cpu", watch)
    with device.held():
        ceilings = platform.measure_ceilings(task)
        baselines = build_baselines(task, builds)
    checks = CheckSet(reference, fresh_folder(scratch), np.random.default_rng(secrets.randbits(128)))
    bench = Bench(
        task, reference, lock, builds, platform.cache_bytes, ceilings, checks, Surprises(reference, checks), baselines
    )
    return KernelJudge(bench, platform, device, environment)


def _value_judge(
    task: Task, zygote: Zygote, builds: Builds, cpu: Cpu, environment: Environment, lanes: int, watch: Watch
) -> ValueJudge:
    places = [Lane(task, zygote, _lane_cores(cpu, task, index)) for index in range(lanes)]
    return ValueJudge(task, builds, places, environment, watch)


def _lane_cores(cpu: Cpu, task: Task, index: int) -> frozenset[int]:
    count = len(cpu.cores)
    return frozenset(cpu.cores[(index * task.threads + k) % count] for k in range(min(task.threads, count)))


class Server:
    """Answers the search's requests, each in a thread of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sending = threading.Lock()
        self._in_hand: dict[int, int] = {}
        """By thread, the question that it works on."""

    def serve(self) -> None:
        """Until the search closes the connection."""
        settings = read(self._sock)
        if settings is None:
            return
        try:
            task = load_task(Path(settings["task_folder"]))
            priority = raise_priority() if _is_timed_here(task) else "ordinary"
            options = {key: settings[key] for key in ("sandbox", "lanes", "target")}
            opened = open_judge(task, priority=priority, watch=self._tell, **options)
            with opened as (judge, environment):
                judge.calibrate()
                self._send({"id": 0, "result": _ready(judge, task, environment)})
                # Where all wait for one device, what is to be placed waits for no lane besides.
                self._requests(judge, settings["lanes"] + task.for_gpu)
        except (UsageError, JudgeError) as error:
            self._send({"id": 0, "error": describe_error(error)})

    def _requests(self, judge: TaskJudge, lanes: int) -> None:
        pool = ThreadPoolExecutor(lanes, thread_name_prefix="lane")
        try:
            while (request := read(self._sock)) is not None:
                pool.submit(self._answer, judge, request)
        finally:  # nobody waits for what is still in hand: it ends when its runner does
            _end_soon()
            pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, judge: TaskJudge, request: Message) -> None:
        self._in_hand[threading.get_ident()] = request["id"]
        try:
            result = _call(judge, request["method"], request["params"])
            answer: Message = {"id": request["id"], "result": result.model_dump(mode="json") if result else None}
        except Exception as error:  # whatever it is, the search must learn of it and not wait for ever
            answer = {"id": request["id"], "error": describe_error(error)}
        self._send(answer)

    def _tell(self, news: DeviceNews) -> None:
        """Tell what becomes of the question that this thread works on; before there is any, of getting ready."""
        self._send({"id": self._in_hand.get(threading.get_ident(), 0), "device": news.value})

    def _send(self, message: Message) -> None:
        with self._sending, contextlib.suppress(BrokenPipeError, ConnectionError):
            self._sock.sendall(pack(message))


def _end_soon() -> None:
    """Give this process a moment to clear away what it has made; then the kernel ends it wherever it is."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # asked once is enough
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, CLEARING_S)


def _leave(number: int, frame: object) -> NoReturn:
    """The search is gone, or wants an end."""
    del number, frame
    _end_soon()
    raise SystemExit(0)


def _call(judge: TaskJudge, method: str, params: dict[str, Any]) -> Evaluation | Duel | Profile | None:
    methods: dict[str, Callable[..., Evaluation | Duel | Profile | None]] = {
        "evaluate": judge.evaluate,
        "confirm": judge.confirm,
        "duel": judge.duel,
        "profile": judge.profile,
    }
    return methods[method](**params)


def _ready(judge: TaskJudge, task: Task, environment: Environment) -> Message:
    calibrations: dict[str, WorkloadCalibration] = getattr(judge, "calibrations", {})
    bench: Bench | None = getattr(judge, "bench", None)
    return {
        "environment": environment.model_dump(mode="json"),
        "task_hash": task.hash,
        "baseline_us": {name: dict(c.baseline_us) for name, c in calibrations.items()},
        "floor_us": {name: c.floor_us for name, c in calibrations.items()},
        "baselines_since": bench.cache.since if bench is not None else "",
    }


def describe_error(error: Exception) -> Message:
    """An error as it travels to the search."""
    kind = next((name for name, cls in ERROR_KINDS.items() if isinstance(error, cls)), "judge")
    message = str(error) if isinstance(error, UsageError | JudgeError) else f"{type(error).__name__}: {error}"
    return {"kind": kind, "message": message}


def main() -> None:
    """Entry of the judge's process: ``--fd`` is its end of the socketpair, ``--parent`` the process it dies with.

    Whatever ends it but SIGKILL, it takes its folder, its control groups and all processes below with it.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != arguments.parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the search decides what to do
    try:
        Server(socket.socket(fileno=arguments.fd)).serve()
    finally:
        os._exit(0)  # threads may still wait for what has ended


if __name__ == "__main__":
    main()
