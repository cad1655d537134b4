"""From what was measured to the :class:`~evaluators.evaluation.Evaluation` that leaves the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.calibration import WorkloadCalibration
from evaluators.cascade import Case
from evaluators.confidence import ratio_interval
from evaluators.evaluation import (
    Environment,
    Evaluation,
    Interval,
    Status,
    Timed,
    Untimed,
    WorkloadResult,
)
from evaluators.failure import CandidateFailure
from evaluators.scoring import alpha_of, call_interval, crowded, relative_half_width, stray, too_short
from evaluators.source import source_hash
from evaluators.task import Task, Workload
from evaluators.trail import Trail

DETAIL_CAP = 8000
SUSPICIOUS_SPEEDUP = 2.0
"""Over the best of all baselines: held until a confirmation explains it."""
NOISY_HALF_WIDTH = 0.25
"""A speed-up whose interval is still this wide (relative) after all rounds is no measurement."""


@dataclass(frozen=True)
class Subject:
    """What an evaluation is about."""

    task: Task
    environment: Environment
    source: str

    def fields(self) -> dict[str, object]:
        """The fields that every evaluation of it has."""
        return {
            "task_hash": self.task.hash,
            "inputs_hash": self.task.inputs_hash,
            "source_hash": source_hash(self.source),
            "environment": self.environment,
        }


def failed_evaluation(subject: Subject, trail: Trail, failure: CandidateFailure) -> Evaluation:
    """The evaluation of a candidate that failed."""
    return Evaluation.model_validate(
        {
            **subject.fields(),
            "status": failure.status,
            "stage": trail.stage,
            "message": printable(" ".join(failure.message.split())),
            "detail": printable(failure.detail[-DETAIL_CAP:], but="\n\t"),
            "workloads": checked_workloads(subject.task, trail),
            "timing": Untimed(reason=f"not timed: {failure.status.value}"),
            "cost": trail.cost(),
        }
    )


def printable(text: str, but: str = "") -> str:
    """A candidate's words for terminals, prompts and databases: what is neither printable nor in ``but`` is replaced.

    Lone surrogates are not printable: a source may hold them, and no database takes them.
    """
    return "".join(char if char in but or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def passed_evaluation(
    subject: Subject,
    case: Case,
    calibrations: Mapping[str, WorkloadCalibration],
    speedup: Interval | None,
    *,
    confirmed: bool,
) -> Evaluation:
    """The evaluation of a kernel that passed, timed where the machine was quiet enough."""
    search = [w.name for w in subject.task.search_workloads()]
    alpha = alpha_of(speedup)
    results = [workload_result(w, case, calibrations.get(w.name), alpha) for w in subject.task.workloads]
    results = [r for r in results if r.errors or r.rounds]
    untimed = _untimed(speedup, case)
    if untimed is None and speedup is not None:
        timing: Timed | Untimed = Timed(
            speedup=speedup,
            cold=all(calibrations[name].plan.cold for name in search),
            rounds=sum(r.rounds for r in results if r.workload in search),
        )
    else:
        timing = untimed or Untimed(reason="")
    return Evaluation.model_validate(
        {
            **subject.fields(),
            "status": Status.PASSED,
            "stage": case.trail.stage,
            "score": speedup.estimate if speedup is not None and isinstance(timing, Timed) else None,
            "measures": case.program.measures,
            "workloads": results,
            "timing": timing,
            "confirmed": confirmed and isinstance(timing, Timed),
            "attestation": case.attestation,
            "cost": case.trail.cost(),
            "artifacts": case.program.artifacts,
        }
    )


def workload_result(
    workload: Workload, case: Case, calibration: WorkloadCalibration | None, alpha: float
) -> WorkloadResult:
    """One workload's part, its intervals with a coverage of ``1 - alpha``."""
    errors = case.trail.errors.get(workload.name, {})
    by_baseline = case.times.get(workload.name, {})
    if calibration is None or not by_baseline:
        return WorkloadResult(workload=workload.name, split=workload.split, weight=workload.weight, errors=errors)
    ratios = {name: ratio_interval(times.log_ratios(), alpha) for name, times in by_baseline.items()}
    ours = [value for times in by_baseline.values() for value in times.ours]
    return WorkloadResult(
        workload=workload.name,
        split=workload.split,
        weight=workload.weight,
        errors=errors,
        call_us=call_interval(ours, alpha),
        ratios={name: interval for name, interval in ratios.items() if interval is not None},
        strongest=calibration.strongest,
        floor_us=calibration.floor_us,
        rounds=len(ours),
        prepare_ms=case.prepare_ms.get(workload.name),
    )


def doubt_of(evaluation: Evaluation) -> str | None:
    """Why a time is too good to be believed at once, or ``None``."""
    for result in evaluation.workloads:
        if result.call_us is not None and result.floor_us and result.call_us.estimate < result.floor_us:
            return (
                f"{result.workload}: {result.call_us.estimate:.4g} us a call, below what the device can do "
                f"({result.floor_us:.4g} us)"
            )
    score = evaluation.score
    if score is not None and score > SUSPICIOUS_SPEEDUP:
        return f"{score:.3g}x the strongest baseline"
    return None


def _untimed(speedup: Interval | None, case: Case) -> Untimed | None:
    if speedup is None:
        return Untimed(reason="no baseline to compare with, or too few rounds")
    series = [times for by_baseline in case.times.values() for times in by_baseline.values()]
    if too_short(series):
        words = "too short: a call takes little beside the channel's own time; give the workload more to do"
        return Untimed(reason=words)
    waited = crowded(series)
    if waited is not None:
        words = f"too noisy: the programs waited {100 * waited:.0f} % of the time for a core; others use this machine"
        return Untimed(reason=words, noisy=True)
    half = relative_half_width(speedup)
    if half > NOISY_HALF_WIDTH:
        words = f"too noisy: the interval is ±{100 * half:.0f} % wide after all rounds"
        return Untimed(reason=words, noisy=stray(series, NOISY_HALF_WIDTH))
    return None


def checked_workloads(task: Task, trail: Trail) -> tuple[WorkloadResult, ...]:
    """The workloads on which anything was compared, with its errors, without times."""
    return tuple(
        WorkloadResult(workload=w.name, split=w.split, weight=w.weight, errors=trail.errors[w.name])
        for w in task.workloads
        if w.name in trail.errors
    )
