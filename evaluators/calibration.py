"""Before the first candidate: baselines built, checked and measured, rounds planned, floors known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from statistics import median

from evaluators.arena import Arena
from evaluators.baseline_cache import ALIKE, BaselineCache
from evaluators.build import Builds, BuiltProgram, lint
from evaluators.ceilings import Ceilings
from evaluators.check_set import CheckSet
from evaluators.checker import Checker
from evaluators.content import ContentPool
from evaluators.empty import empty_calls_us
from evaluators.errors import TaskError
from evaluators.failure import CandidateFailure
from evaluators.plan import RoundPlan, layout_of
from evaluators.reference import Reference
from evaluators.rounds import Side, draw_slots, one_round
from evaluators.surprise import Surprises
from evaluators.task import Baseline, Language, Task, Workload
from evaluators.tolerance import ToleranceLock

PROBE_ROUNDS = 2
CALIBRATION_ROUNDS = 5
LONGER_ROUND = ALIKE
"""Rounds that would be so many times as long by what the baselines truly take are planned anew."""
HOPELESS_FACTOR = 3.0
"""A baseline this many times slower than the fastest is not measured more closely: it cannot be the strongest."""
BASELINE_CALL_DEADLINE_S = 30.0


@dataclass
class Bench:
    """What all candidates of one task share on one device."""

    task: Task
    reference: Reference
    lock: ToleranceLock
    builds: Builds
    cache_bytes: int
    ceilings: Ceilings
    checks: CheckSet
    """What every candidate is checked on."""
    surprises: Surprises
    baselines: dict[str, BuiltProgram] = field(default_factory=dict)
    cache: BaselineCache = field(default_factory=BaselineCache)
    """What earlier judges left of the baselines."""


@dataclass(frozen=True)
class WorkloadCalibration:
    """One workload's rounds, and what the baselines and an empty call take in them."""

    plan: RoundPlan
    content: ContentPool
    baseline_us: Mapping[str, float]
    strongest: str | None
    contenders: frozenset[str]
    """Baselines within ``HOPELESS_FACTOR`` of the fastest."""
    empty_us: Mapping[Language, float]
    floor_us: float


def build_baselines(task: Task, builds: Builds) -> dict[str, BuiltProgram]:
    """Every baseline of the task.

    Raises:
        TaskError: one does not build.
    """
    built = {}
    for baseline in task.baselines:
        source = (task.folder / baseline.file).read_text(encoding="utf-8")
        try:
            flags = _baseline_flags(task, source, baseline)
            built[baseline.name] = builds.build(task, source, baseline.language, flags)
        except CandidateFailure as failure:
            raise TaskError(f"{task.folder / baseline.file}: baseline {baseline.name}: {failure.message}") from None
    return built


def _baseline_flags(task: Task, source: str, baseline: Baseline) -> tuple[str, ...]:
    languages = (*task.languages, baseline.language)
    return lint(task.model_copy(update={"languages": languages}), source, baseline.language, None)


def calibrate_all(
    bench: Bench, arena: Arena, workloads: Iterable[Workload], languages: Iterable[Language]
) -> dict[str, WorkloadCalibration]:
    """:func:`calibrate` for each of these workloads, before the first candidate.

    What an earlier judge left is used and, where it was nothing or no longer true, left for the next. A baseline that
    fails on what it had compiled then is tried once more without.

    Raises:
        TaskError: a baseline gives wrong answers or fails.
    """
    workloads, languages = list(workloads), list(languages)
    try:
        made = {w.name: calibrate(bench, arena, w, languages) for w in workloads}
    except (TaskError, CandidateFailure):
        for name in bench.baselines:
            arena.discard(name)
        if not bench.cache.forget():
            raise
        made = {w.name: calibrate(bench, arena, w, languages) for w in workloads}
    if not bench.cache.since:
        _compile_heldout(bench, arena)
    bench.cache.keep({name: calibration.baseline_us for name, calibration in made.items()})
    return made


def _compile_heldout(bench: Bench, arena: Arena) -> None:
    """Have baselines that compile do so for the held-out workloads, that it is kept too: later candidates have run.

    In processes of their own. What fails here will fail, and be told, when it is checked.
    """
    heldout = [w for w in bench.task.workloads if w.split == "heldout"]
    for name, program in bench.baselines.items():
        if not heldout or not bench.cache.has_compiled(program):
            continue
        passing = f"{name}, held out"
        with suppress(CandidateFailure):
            session = arena.kept(passing, program)
            for workload in heldout:
                layout = layout_of(bench.task, workload, 1)
                if layout.input_bytes <= session.inputs.size and layout.output_bytes <= session.outputs.size:
                    session.prepare(layout, bench.task.limits.prepare_s)
        arena.discard(passing)


def calibrate(
    bench: Bench, arena: Arena, workload: Workload, languages: Iterable[Language], *, rough: bool = False
) -> WorkloadCalibration:
    """Measure one workload's baselines and its empty calls.

    Args:
        bench: the task, its reference and its built baselines.
        arena: where their runners live.
        workload: what to calibrate.
        languages: which languages' empty calls to measure, besides the baselines'.
        rough: a first time of each baseline is enough: nobody will read it, and it still tells which is the strongest.

    Raises:
        TaskError: a baseline gives wrong answers or fails.
    """
    content = arena.content(bench.reference, workload)
    known = bench.cache.baseline_us.get(workload.name, {})
    planned = arena.plan(workload, bench.cache_bytes, min(known.values()) / 1e6) if known else None
    probed = _probe_all(bench, arena, workload, content, planned)
    fastest = min(probed.values(), default=None)
    contenders = frozenset(n for n, us in probed.items() if fastest is not None and us <= HOPELESS_FACTOR * fastest)
    plan = arena.plan(workload, bench.cache_bytes, None if fastest is None else fastest / 1e6)
    if planned is not None and 1 / LONGER_ROUND <= planned.calls / plan.calls <= LONGER_ROUND:
        plan = planned  # for which rounds are recorded already
    empty_us = _empty_calls(bench, arena, plan, languages, content)
    times = dict(probed)
    if contenders and not rough:
        times |= {name: _measure(bench, arena, plan, content, name, empty_us) for name in contenders}
        longer = arena.plan(workload, bench.cache_bytes, min(times.values()) / 1e6)
        if longer.calls > LONGER_ROUND * plan.calls:  # what was probed held more than the calls
            plan = longer
            empty_us = _empty_calls(bench, arena, plan, languages, content)
            times |= {name: _measure(bench, arena, plan, content, name, empty_us) for name in contenders}
    floor = bench.ceilings.floor_us(
        bench.reference.traffic_bytes(workload), bench.reference.operations(workload), cold=plan.cold
    )
    strongest = min(times, key=lambda name: times[name]) if times else None
    return WorkloadCalibration(plan, content, times, strongest, contenders, empty_us, floor)


def _empty_calls(
    bench: Bench, arena: Arena, plan: RoundPlan, languages: Iterable[Language], content: ContentPool
) -> dict[Language, float]:
    wanted = {*languages, *(p.language for p in bench.baselines.values())}
    return empty_calls_us(arena, plan, bench.builds, wanted, content)


def baseline_side(bench: Bench, arena: Arena, calibration: WorkloadCalibration, name: str) -> Side:
    """A baseline's live runner, prepared for the workload, as one side of a pair."""
    program = bench.baselines[name]
    session = arena.kept(name, program)
    session.prepare(calibration.plan.layout, bench.task.limits.prepare_s)
    return Side(session, calibration.empty_us[program.language], BASELINE_CALL_DEADLINE_S, None)


def _probe_all(
    bench: Bench, arena: Arena, workload: Workload, content: ContentPool, planned: RoundPlan | None
) -> dict[str, float]:
    """A first, rough time of every baseline, its outputs checked whole; microseconds a call, empty call included.

    Those that had a chance in an earlier judge are probed in rounds as they were ``planned`` for its times.
    """
    known = bench.cache.baseline_us.get(workload.name, {})
    near_us = HOPELESS_FACTOR * min(known.values(), default=0.0)
    probed: dict[str, float] = {}
    for name in sorted(bench.baselines, key=lambda name: known.get(name, inf)):
        plan = planned if known.get(name, inf) <= near_us else None
        plan = plan or arena.probe_plan(workload, bench.cache_bytes)
        probed[name] = _probe(bench, arena, plan, content, name, min(probed.values(), default=inf))
    return {name: probed[name] for name in bench.baselines}


def _probe(bench: Bench, arena: Arena, plan: RoundPlan, content: ContentPool, name: str, fastest_us: float) -> float:
    workload = plan.workload
    checker = Checker(bench.reference, bench.lock, arena.rng)
    try:
        session = arena.kept(name, bench.baselines[name])
        session.prepare(plan.layout, bench.task.limits.prepare_s)
        side = Side(session, 0.0, BASELINE_CALL_DEADLINE_S, checker)
        times = []
        for index in range(PROBE_ROUNDS):
            slots = draw_slots(plan, arena.rng)
            arena.fill(session, content, slots)
            times.append(one_round(side, plan, slots, arena.rng, whole=index == 0))
            if min(times) > HOPELESS_FACTOR * fastest_us:
                break
    except CandidateFailure as failure:
        raise TaskError(f"{bench.task.name}: baseline {name} fails on {workload.name}: {failure.message}") from None
    return min(times)


def _measure(
    bench: Bench,
    arena: Arena,
    plan: RoundPlan,
    content: ContentPool,
    name: str,
    empty_us: Mapping[Language, float],
) -> float:
    program = bench.baselines[name]
    session = arena.kept(name, program)
    session.prepare(plan.layout, bench.task.limits.prepare_s)
    side = Side(session, empty_us[program.language], BASELINE_CALL_DEADLINE_S, None)
    times = []
    for _ in range(CALIBRATION_ROUNDS):
        slots = draw_slots(plan, arena.rng)
        arena.fill(session, content, slots)
        times.append(one_round(side, plan, slots, arena.rng))
    return median(times)
