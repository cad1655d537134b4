"""The sanitizer's part of a confirmation: a program on small shapes under memcheck and racecheck.

Both run one after another: of several at once on one device all but one hang. Each is on its way to its gate
(:mod:`evaluators.cuda.inspection`) while rounds of the confirmation are timed, on the compilers' cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np

from evaluators.build import BuiltProgram
from evaluators.calibration import Bench
from evaluators.cascade import Case
from evaluators.cuda.inspection import Example, Report, StartedTool, Tools, ToolUnavailable
from evaluators.cuda.sanitizer import COMMON, MEMCHECK, RACECHECK, Sanitized, parse
from evaluators.errors import JudgeError, UsageError
from evaluators.evaluation import Attestation, Stage, Status
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


_DEVICE_NODES = "/dev/nvidia"


@dataclass
class Sanitizing:
    """Starts the sanitizer where it is seen to work in the sandbox; what is missing is said once for all."""

    tools: Tools
    apart: bool
    """Whether tools have cores of their own, so that they may start while programs are timed."""
    missing: str | None = None
    """``None`` until it was tried; empty where it works."""
    ahead: bool = False
    """Whether they start ahead: apart, and the tool was seen to leave the device alone until its program begins."""

    def get_ready(self, bench: Bench) -> None:
        """Have what is tried out first built, while the device may be somebody else's."""
        if self.missing is None and self.apart:
            with suppress(CandidateFailure, JudgeError):  # told when it is tried out
                bench.builds.build(planted_task(bench.task), _PLANTED, "cuda", ())

    def begin(self, bench: Bench, program: BuiltProgram) -> Sanitation:
        """Begin with a program that is about to be confirmed."""
        self._try_out(bench)
        return Sanitation(self, bench, program)

    def _try_out(self, bench: Bench) -> None:
        """Once: a program of our own that writes beyond its buffer must be found out."""
        if self.missing is not None:
            return
        task = planted_task(bench.task)
        example = Example(task.workloads[0], {"x": np.ones(64, np.float32)})
        try:
            program = bench.builds.build(task, _PLANTED, "cuda", ())
            report = self.tools.run((*MEMCHECK, *COMMON), program, task, [example])
            found = parse(report)
        except (ToolUnavailable, CandidateFailure, UsageError, JudgeError) as error:
            self.missing = str(error)
            return
        self.missing = "" if found.errors else "memcheck does not find an error that was planted, in the sandbox"
        self.ahead = self.apart and leaves_device_alone(report)


class Sanitation:
    """The sanitizer over one program. Nobody else may have the device from its beginning until it is closed."""

    def __init__(self, sanitizing: Sanitizing, bench: Bench, program: BuiltProgram) -> None:
        """Memcheck is on its way from now on, where it may start ahead."""
        self._sanitizing, self._bench, self._program = sanitizing, bench, program
        self._shapes = small_shapes(bench.task)
        self._missing = sanitizing.missing or ""
        self._begun: StartedTool | None = None
        if sanitizing.ahead:
            self._begin(MEMCHECK, self._shapes)

    def memory(self) -> None:
        """See :class:`evaluators.platform.Inspection`. Then racecheck is on its way."""
        found = self._found(MEMCHECK, self._shapes)
        if found is not None and found.errors:
            words = found.findings[0] if found.findings else f"{found.errors} errors"
            where = " or ".join(shape.name for shape in self._shapes)
            message = f"{where}: memcheck: {words}"
            raise CandidateFailure(Status.RUNTIME_ERROR, message, detail="\n".join(found.findings))
        if self._sanitizing.ahead:
            self._begin(RACECHECK, self._shapes[:1])

    def races(self, case: Case) -> None:
        """See :class:`evaluators.platform.Inspection`."""
        before = case.trail.stage
        case.trail.enter(Stage.ATTESTATION)
        races = self._found(RACECHECK, self._shapes[:1])
        case.trail.enter(before)
        attested = case.attestation or Attestation()
        if races is None:
            words = f"compute-sanitizer: {self._missing}"
            missing = f"{attested.missing}; {words}" if attested.missing else words
            case.attestation = attested.model_copy(update={"missing": missing})
            return
        case.attestation = attested.model_copy(update={"memory_errors": 0, "race_hazards": races.errors})

    def close(self) -> None:
        """End what waits."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.close()

    def _begin(self, tool: Sequence[str], shapes: Sequence[Workload]) -> None:
        if self._missing:
            return
        checks, ordinary = self._bench.checks, self._bench.reference.families[0]
        examples = [Example(shape, checks.case(shape, ordinary).inputs) for shape in shapes]
        try:
            self._begun = self._sanitizing.tools.start((*tool, *COMMON), self._program, self._bench.task, examples)
        except ToolUnavailable as why:
            self._missing = str(why)

    def _found(self, tool: Sequence[str], shapes: Sequence[Workload]) -> Sanitized | None:
        """What a tool finds; ``None`` where it, or one before it, came to no end: ``_missing`` says why."""
        if self._begun is None:
            self._begin(tool, shapes)
        if self._begun is None:
            return None
        try:
            with closing(self._begun):
                report = self._begun.report()
            if not leaves_device_alone(report):  # what this program needs may come to it sooner than the planted one's
                self._sanitizing.ahead = False
            return parse(report)
        except ToolUnavailable as why:
            self._missing = str(why)
            return None
        finally:
            self._begun = None


def leaves_device_alone(report: Report) -> bool:
    """Whether nothing in the box had the device open when the program stood at the gate, the tool included."""
    return report.devices is not None and not any(name.startswith(_DEVICE_NODES) for name in report.devices)


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
