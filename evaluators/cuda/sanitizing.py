"""The sanitizer's part of a confirmation: a program on small shapes under memcheck and racecheck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluators.build import BuiltProgram
from evaluators.calibration import Bench
from evaluators.cascade import Case
from evaluators.cuda.inspection import Tools, ToolUnavailable
from evaluators.cuda.sanitizer import COMMON, MEMCHECK, RACECHECK, Sanitized, parse
from evaluators.errors import JudgeError, UsageError
from evaluators.evaluation import Attestation, Status
from evaluators.failure import CandidateFailure
from evaluators.plan import layout_of
from evaluators.task import Arg, Task, Workload

SMALL_SHAPES = 2
"""The smallest search workload, and the first of the edge ones."""
_PLANTED = """
__global__ void beyond(const float* x, float* out, long long n) { out[n] = x[0]; }
extern "C" void planted(const float* x, float* out, long long n, cudaStream_t stream) {
    beyond<<<1, 1, 0, stream>>>(x, out, n);
}
"""


@dataclass
class Sanitizing:
    """Runs the sanitizer where it is seen to work in the sandbox; what is missing is said once for all."""

    tools: Tools
    missing: str | None = None
    """``None`` until it was tried; empty where it works."""

    def look(self, bench: Bench, case: Case) -> None:
        """Look at a program, and note in its attestation what was found.

        Raises:
            CandidateFailure: it reaches beyond its buffers.
        """
        attested = case.attestation or Attestation()
        shapes = small_shapes(bench.task)
        try:
            self._try_out(bench)
            memory = [self._found(bench, case.program, shape, MEMCHECK) for shape in shapes]
            races = self._found(bench, case.program, shapes[0], RACECHECK)
        except ToolUnavailable as why:
            words = f"compute-sanitizer: {why}"
            missing = f"{attested.missing}; {words}" if attested.missing else words
            case.attestation = attested.model_copy(update={"missing": missing})
            return
        for shape, found in zip(shapes, memory, strict=True):
            if found.errors:
                words = found.findings[0] if found.findings else f"{found.errors} errors"
                raise CandidateFailure(
                    Status.RUNTIME_ERROR, f"{shape.name}: memcheck: {words}", detail="\n".join(found.findings)
                )
        case.attestation = attested.model_copy(update={"memory_errors": 0, "race_hazards": races.errors})

    def _found(self, bench: Bench, program: BuiltProgram, shape: Workload, tool: Sequence[str]) -> Sanitized:
        """What one tool finds on one shape. One after another: of several at once on one device all but one hang."""
        inputs = bench.checks.case(shape, bench.reference.families[0]).inputs
        return parse(self.tools.run((*tool, *COMMON), program, bench.task, shape, inputs))

    def _try_out(self, bench: Bench) -> None:
        """Once: a program of our own that writes beyond its buffer must be found out."""
        if self.missing is None:
            self.missing = self._what_is_missing(bench)
        if self.missing:
            raise ToolUnavailable(self.missing)

    def _what_is_missing(self, bench: Bench) -> str:
        task = planted_task(bench.task)
        inputs = {"x": np.ones(64, np.float32)}
        try:
            program = bench.builds.build(task, _PLANTED, "cuda", ())
            found = parse(self.tools.run((*MEMCHECK, *COMMON), program, task, task.workloads[0], inputs))
        except (ToolUnavailable, CandidateFailure, UsageError, JudgeError) as error:
            return str(error)
        return "" if found.errors else "memcheck does not find an error that was planted, in the sandbox"


def small_shapes(task: Task) -> list[Workload]:
    """What the sanitizer looks at: it makes programs some hundred times slower."""

    def size(workload: Workload) -> int:
        return layout_of(task, workload, 1).slot_bytes

    edges = sorted((w for w in task.workloads if w.split == "edge"), key=size, reverse=True)
    return [*edges[:1], min(task.search_workloads(), key=size)][:SMALL_SHAPES]


def planted_task(task: Task) -> Task:
    """A task of our own, for a program with an error."""
    args = tuple(Arg(name=n, role=r, dtype="fp32", shape=("N",)) for n, r in (("x", "in"), ("out", "out")))
    workloads = (Workload(name="planted", axes={"N": 64}),)
    update = {"name": "planted", "languages": ("cuda",), "entry": "planted", "args": args, "workloads": workloads}
    return task.model_copy(update=update)
