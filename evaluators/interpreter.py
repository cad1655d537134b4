"""Whether a Triton program is right, without a GPU: interpreted in a sandboxed runner, on small shapes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from evaluators.buffers import SharedBuffer
from evaluators.build import BuiltProgram
from evaluators.builders.triton import RUNNER_PACKAGES, installed
from evaluators.check_set import CheckSet
from evaluators.checker import Checker
from evaluators.evaluation import Stage, Status
from evaluators.failure import CandidateFailure
from evaluators.launch import open_session
from evaluators.plan import layout_of
from evaluators.reference import Reference, load_reference
from evaluators.scratch import fresh_folder
from evaluators.session import Session
from evaluators.task import Task, Workload
from evaluators.tolerance import load_lock
from evaluators.trail import Trail
from evaluators.zygote.client import Zygote

CALL_S = 30.0
ALL_S = 120.0
SMALL_ELEMENTS = 1 << 16
"""Arguments of an edge workload that is interpreted as it is; a program of a grid takes milliseconds."""
FEW_ROWS, FEW_COLUMNS = 7, 64
"""What is kept of a larger one, where the reference says that rows and columns are independent."""
MOST_ELEMENTS = 1 << 20
WRONG = frozenset({Status.WRONG_VALUES, Status.NOT_FINITE, Status.WRONG_SHAPE, Status.WRONG_DTYPE})
"""What is the program's own; other failures may be the interpreter's, which does not know every operation."""


class _NotInterpreted(Exception):
    """It failed in a way that may be the interpreter's; the text says how."""


class Interpreter:
    """Checks programs of one task."""

    def __init__(self, task: Task, zygote: Zygote, scratch: Path) -> None:
        self._task = task.model_copy(update={"python_packages": installed(RUNNER_PACKAGES)})
        self._zygote = zygote
        self._reference, self._lock = load_reference(task), load_lock(task)
        self._rng = np.random.default_rng(secrets.randbits(128))
        self._checks = CheckSet(self._reference, fresh_folder(scratch), self._rng)
        self._workloads = _small(self._reference)
        self._layouts = {w.name: layout_of(task, w, len(self._families(w))) for w in self._workloads}

    def check(self, program: BuiltProgram, trail: Trail) -> str | None:
        """Run it on every small workload; ``None`` where it is right, else why nothing can be said.

        Raises:
            CandidateFailure: its answers are wrong.
        """
        trail.enter(Stage.CORRECTNESS)
        deadline = time.monotonic() + ALL_S
        checker = Checker(self._reference, self._lock, self._rng, trail.errors)
        try:
            with self._session(program) as session:
                for workload in self._workloads:
                    self._check_workload(session, checker, workload)
                    if time.monotonic() > deadline:
                        return f"not all small shapes were interpreted within {ALL_S:g} s"
        except _NotInterpreted as failure:
            return f"the interpreter could not run it: {failure}"
        return None

    @contextmanager
    def _session(self, program: BuiltProgram) -> Iterator[Session]:
        interpreted = replace(program, artifact=None, runs_as="interpreted")
        room = max(layout.output_bytes for layout in self._layouts.values())
        with SharedBuffer("inputs", max(x.input_bytes for x in self._layouts.values()), read_only=True) as inputs:
            try:
                session = open_session(self._zygote, self._task, interpreted, inputs, room, None)
            except CandidateFailure as failure:
                raise _NotInterpreted(failure.message) from failure
            try:
                yield session
            finally:
                session.close()

    def _check_workload(self, session: Session, checker: Checker, workload: Workload) -> None:
        session.prepare_running(self._layouts[workload.name], self._task.limits.prepare_s)
        for slot, case in enumerate(self._checks.cases(workload, self._families(workload))):
            session.store(slot, case.inputs)
            try:
                session.call(slot, CALL_S)
            except CandidateFailure as failure:
                if failure.status in WRONG or session.guard.broken() is not None:
                    raise
                raise _NotInterpreted(failure.message) from failure
            checker.check_case(session, slot, workload, case)

    def _families(self, workload: Workload) -> list[str]:
        """Every family at the edges; elsewhere the ordinary one, since a long inner loop takes seconds."""
        families = self._checks.families(workload)
        return families if workload.split == "edge" else families[:1]


def _small(reference: Reference) -> list[Workload]:
    """Edge workloads, and of larger and of scored ones a few rows and columns, each shape once.

    The scored ones too, since a program may go another way for their lengths than for those of the edges.
    """
    found: dict[tuple[int, ...], Workload] = {}
    for workload in reference.task.workloads:
        axes = dict(workload.axes)
        if workload.split != "edge" or _elements(reference.task, workload) > SMALL_ELEMENTS:
            for axis, most in ((reference.row_axis, FEW_ROWS), (reference.column_axis, FEW_COLUMNS)):
                if axis is not None:
                    axes[axis] = min(axes[axis], most)
        small = workload.model_copy(update={"axes": axes})
        if workload.split != "heldout" and _elements(reference.task, small) <= MOST_ELEMENTS:
            found.setdefault(tuple(axes.values()), small)
    return sorted(found.values(), key=lambda w: _elements(reference.task, w))


def _elements(task: Task, workload: Workload) -> int:
    return sum(int(np.prod(place.shape)) for place in layout_of(task, workload, 1).places)
