"""One evaluation as a table: what ``evolve eval`` and ``evolve show RUN NUMBER`` print."""

from __future__ import annotations

from evaluators.evaluation import Evaluation, Status, Timed, WorkloadResult
from evolve.display import wording
from evolve.display.report import Table, facts
from evolve.display.summary import strongest_baselines, versus_strongest


def describe(evaluation: Evaluation) -> list[str | Table]:
    """The verdict, then a row per workload: error beside limit, time, ratio to each baseline, share of the floor."""
    environment = evaluation.environment
    sandbox = "" if environment.sandbox == "full" else f", sandbox {environment.sandbox}"
    pairs = [
        ("verdict", _verdict(evaluation)),
        ("said", evaluation.detail.rstrip() if evaluation.status is not Status.PASSED else ""),
        ("score", "" if evaluation.score is None else f"{evaluation.score:.10g}"),
        ("speed", _speed(evaluation)),
        ("measured", ", ".join(f"{name} {value:g}" for name, value in evaluation.measures.items())),
        ("kernels", _resources(evaluation)),
        ("on", environment.device_class + sandbox),
        ("took", f"{evaluation.cost.wall_s:.2f} s, of which {evaluation.cost.build_s:.2f} s building"),
    ]
    parts: list[str | Table] = [facts(pairs)]
    if evaluation.workloads:
        parts.append(workload_table(evaluation.workloads))
    return parts


def _resources(evaluation: Evaluation) -> str:
    """What every kernel uses, where that is all there is to say of its speed."""
    if evaluation.score is not None:
        return ""
    return next((a.text.strip() for a in evaluation.artifacts if a.name == "resources.txt"), "")


def workload_table(workloads: tuple[WorkloadResult, ...]) -> Table:
    """A row per workload; a column per baseline that any of them was measured against."""
    baselines = list(dict.fromkeys(name for workload in workloads for name in workload.ratios))
    timed = [f"vs {name}" for name in baselines]
    columns = (
        "workload",
        "split",
        "max error / limit (ulp)",
        "rms error / limit (ulp)",
        "time",
        *timed,
        "of the floor",
    )
    rows = tuple(
        (
            w.workload,
            w.split,
            _worst(w, "max"),
            _worst(w, "rms"),
            wording.microseconds(w.call_us.estimate) if w.call_us else "-",
            *(_ratio(w, name) for name in baselines),
            wording.percent(w.floor_us / w.call_us.estimate) if w.floor_us and w.call_us else "-",
        )
        for w in workloads
    )
    return Table(columns, rows, right=frozenset(columns[2:]))


def _verdict(evaluation: Evaluation) -> str:
    confirmed = ", confirmed in a process of its own" if evaluation.confirmed else ""
    stage = "" if evaluation.status is Status.PASSED else f" at {evaluation.stage}"
    return f"{evaluation.status}{stage}{confirmed}" + (f": {evaluation.message}" if evaluation.message else "")


def _speed(evaluation: Evaluation) -> str:
    if isinstance(evaluation.timing, Timed):
        cold = "cold caches" if evaluation.timing.cold else "warm caches"
        text = versus_strongest(evaluation.timing.speedup, strongest_baselines(evaluation))
        return f"{text}; {evaluation.timing.rounds} rounds, {cold}"
    return f"not timed: {evaluation.timing.reason}" if evaluation.status is Status.PASSED else ""


def _worst(workload: WorkloadResult, which: str) -> str:
    """The input family that came nearest to its limit (or passed it)."""
    pairs = [(getattr(m, f"{which}_ulp"), getattr(m, f"{which}_limit_ulp")) for m in workload.errors.values()]
    if not pairs:
        return "-"
    if any(error is None for error, _ in pairs):
        return "NaN or Inf"
    error, limit = max(pairs, key=lambda pair: (pair[0] / pair[1] if pair[1] else float(pair[0] > 0), pair[0]))
    return f"{error:.3g} / {limit:.3g}"


def _ratio(workload: WorkloadResult, baseline: str) -> str:
    interval = workload.ratios.get(baseline)
    if interval is None:
        return "-"
    return wording.ratio(interval) + (" *" if baseline == workload.strongest else "")
