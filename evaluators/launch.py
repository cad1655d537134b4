"""Starting runners: one fresh sandboxed process for each program that is to be judged."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from evaluators import channel
from evaluators.buffers import SharedBuffer
from evaluators.build import BuiltProgram
from evaluators.exchange import Exchange
from evaluators.session import Session
from evaluators.task import Task
from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote

CPU_SECONDS = 600.0
"""Backstop against a runner that the judge lost sight of; every phase has its own, much shorter deadline."""


def open_session(
    zygote: Zygote,
    task: Task,
    program: BuiltProgram,
    inputs: SharedBuffer,
    output_bytes: int,
    cpus: frozenset[int] | None,
    exchange: Exchange | None = None,
) -> Session:
    """A runner that has imported the program and waits for its first workload.

    Args:
        zygote: forks the runner.
        task: the signature, the limits and the threads it may use.
        program: what it runs.
        inputs: the shared, read-only inputs.
        output_bytes: how much room its outputs need at most, guard zones included.
        cpus: the cores it is bound to.
        exchange: what timed rounds need.

    Raises:
        CandidateFailure: it could not be imported.
    """
    with ExitStack() as stack:
        ours, theirs = channel.pair()
        stack.callback(ours.close)
        outputs = SharedBuffer("outputs", output_bytes, read_only=False)
        stack.callback(outputs.close)
        mapped = inputs.size + outputs.size
        reader = inputs.reader()
        try:
            child = zygote.spawn(
                SpawnRequest(
                    role="runner",
                    entry="evaluators.runner:main",
                    payload=_payload(task, program, exchange),
                    fds={"channel": theirs.fileno(), "inputs": reader, "outputs": outputs.fd},
                    readable=_readable(program, exchange),
                    writable=(),
                    limits=ChildLimits(
                        memory_bytes=task.limits.memory_bytes + mapped, cpu_s=CPU_SECONDS, file_bytes=0, processes=0
                    ),
                    cpus=cpus,
                    environment=_environment(task),
                    observed=program.observed,
                    python_packages=task.python_packages,
                )
            )
        finally:
            theirs.close()
            os.close(reader)
        session = Session(child, ours, inputs, outputs, exchange, cores=len(cpus or os.sched_getaffinity(0)))
        stack.pop_all()
    try:
        session.import_program(task.limits.import_s)
    except BaseException:
        session.close()
        raise
    return session


def _readable(program: BuiltProgram, exchange: Exchange | None) -> tuple[Path, ...]:
    shared = (program.artifact, exchange.library if exchange is not None else None)
    return tuple(path for path in shared if path is not None)


def _payload(task: Task, program: BuiltProgram, exchange: Exchange | None) -> dict[str, object]:
    payload: dict[str, object] = {
        "language": program.runs_as or program.language,
        "entry": task.entry,
        "threads": task.threads,
        "dtypes": [arg.dtype for arg in task.args],
    }
    if program.artifact is not None:
        payload["artifact"] = str(program.artifact)
    else:
        payload["source"] = program.source
    if exchange is not None:
        payload["exchange"] = {"library": str(exchange.library), "spin_ns": exchange.runner_spin_ns}
    return payload


def _environment(task: Task) -> dict[str, str]:
    threads = str(task.threads)
    return {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
