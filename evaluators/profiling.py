"""Profiling one program on one workload, from outside and apart from every verdict.

A process of its own, after whatever the program was judged by: a few rounds for the rates, then calls that are stopped
at random moments. What the program does meanwhile can only spoil its own profile.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from evaluators.arena import Arena
from evaluators.bottleneck import Facts, find_bottleneck
from evaluators.build import BuiltProgram
from evaluators.builders.cpp import LISTING, SOURCE
from evaluators.calibration import Bench, WorkloadCalibration
from evaluators.cascade import Case, candidate_side, warm_up
from evaluators.hot_spots import Sampled, hot_spots, place_samples
from evaluators.instructions import Kind
from evaluators.listing import Listing
from evaluators.plan import RoundPlan
from evaluators.profile import MOST_COUNTERS, MOST_TEXT, Ceiling, Counter, Profile
from evaluators.report import printable
from evaluators.rounds import Side, draw_slots, lone_round, one_round
from evaluators.sampling import Account, Sampler, Samples, Unreadable
from evaluators.scoring import MOST_WAITED
from evaluators.task import Task, Workload

ROUNDS = 3
SAMPLES = 600
SAMPLING_S = 1.5
"""Sampling ends after so long, however few samples there are."""
CHANNEL_FACTOR = 10
"""In calls that take so many times as long as empty ones, what the channel takes of the processor hardly counts."""
FITTING_SHARE = 0.5
"""A slot that takes at most so much of the last-level cache stays there between two calls on it."""
_UNITS = {
    "text_kib": "KiB",
    "shared_kib": "KiB",
    "registers": "registers/thread",
    "local_bytes": "bytes/thread",
}
_MIX = {
    "vector": (Kind.VECTOR,),
    "scalar_float": (Kind.SCALAR_FLOAT,),
    "fma": (Kind.FMA,),
    "division": (Kind.DIVISION,),
    "gather": (Kind.GATHER,),
    "memory": (Kind.MEMORY,),
    "branch": (Kind.BRANCH,),
    "atomic": (Kind.ATOMIC,),
}
_LOUD_SHARE = 0.1
"""A kind of instruction with at least this share of the samples is named."""


@dataclass(frozen=True)
class Rates:
    """What the rounds say."""

    cold: bool
    call_us: float
    warm_us: float | None
    page_faults: float
    """A call."""
    waited_share: float
    """Of the rounds' time, how much the program's threads together waited for a core."""


@dataclass(frozen=True)
class Seen:
    """What the samples say."""

    placed: Sampled
    system_share: float
    """Of the processor's time during the calls that were sampled, what the kernel says it took itself."""


def workload_to_profile(task: Task) -> Workload:
    """The search workload that counts most; of equals the one with the largest sizes."""
    return max(task.search_workloads(), key=lambda w: (w.weight, np.prod([float(n) for n in w.axes.values()])))


def no_profile(device_class: str, workload: str, why: str) -> Profile:
    """The profile of a program of which nothing was measured."""
    words = printable(" ".join(why.split()))
    return Profile(tool="none", device_class=device_class, workload=workload, missing=words[:MOST_TEXT])


def profile_case(
    bench: Bench, arena: Arena, case: Case, calibration: WorkloadCalibration, device_class: str, *, samples: bool
) -> Profile:
    """Profile a program in the fresh process of ``case``. Everybody else's must be stopped.

    Args:
        bench: the task and what the device can do.
        arena: where the process lives.
        case: the process.
        calibration: of the workload.
        device_class: for the record.
        samples: whether the program runs on processors that can be looked at.

    Raises:
        CandidateFailure: the program failed.
        JudgeError: we did.
    """
    side = candidate_side(bench, case, calibration)
    plan = calibration.plan.shortened(warm_up(side, calibration, arena))
    rates = _rates(bench, arena, side, plan, calibration)
    missing, seen = "", None
    if samples:
        try:
            seen = _seen(arena, side, plan, case.program)
            missing = "" if seen.placed.samples else "where its time goes: no call was long enough"
        except Unreadable as why:
            missing = f"where its time goes: {why}"
    placed = seen.placed if seen is not None and seen.placed.samples else None
    ceilings = _ceilings(bench, plan.workload, rates)
    bottleneck, reason = find_bottleneck(_facts(bench.task, rates, ceilings, side.empty_call_us, seen))
    if rates.waited_share > MOST_WAITED:
        bottleneck, reason = None, ""
        missing = f"what limits it: it waited {rates.waited_share:.0%} of the time for a core; others use this machine"
    return Profile(
        tool="rounds" if placed is None else "sampling",
        device_class=device_class,
        workload=plan.workload.name,
        call_us=rates.call_us,
        bottleneck=bottleneck,
        reason=reason,
        ceilings=ceilings,
        hot_spots=() if placed is None else hot_spots(placed, case.program.source),
        samples=0 if placed is None else placed.samples,
        threads=() if placed is None else placed.busy_threads(bench.task.threads),
        counters={**_compiled(case.program.measures), **_measured(rates, placed)},
        missing=missing,
    )


def _rates(bench: Bench, arena: Arena, side: Side, plan: RoundPlan, calibration: WorkloadCalibration) -> Rates:
    """Whole rounds on fresh content; then the same slot again and again, where it fits in the cache."""
    pid = side.session.child.pid
    before, waited_ns = Account.of(pid), side.session.child.waited_ns()
    times = []
    for _ in range(ROUNDS):
        slots = draw_slots(plan, arena.rng)
        arena.fill(side.session, calibration.content, slots)
        times.append(one_round(side, plan, slots, arena.rng))
    took_ns = 1e3 * sum(times) * plan.calls
    waited_share = min(max(side.session.child.waited_ns() - waited_ns, 0) / took_ns, 1.0)
    page_faults = Account.of(pid).since(before).page_faults / (ROUNDS * plan.calls)
    slot_bytes = plan.layout.input_stride + plan.layout.output_stride
    warm_us = None
    if plan.cold and slot_bytes <= FITTING_SHARE * bench.cache_bytes and not plan.layout.sequences:
        again = lone_round(
            side.session, plan, [int(arena.rng.integers(plan.layout.slots))] * plan.calls, side.call_deadline_s
        )
        warm_us = max(again.call_us - side.empty_call_us, 0.0)
    return Rates(plan.cold, median(times), warm_us, page_faults, waited_share)


def _seen(arena: Arena, side: Side, plan: RoundPlan, program: BuiltProgram) -> Seen:
    session = side.session
    before = Account.of(session.child.pid)
    sampler = Sampler(session.child, arena.rng, SAMPLES, time.monotonic() + SAMPLING_S)
    session.resume()
    try:
        while not sampler.done:
            for slot in draw_slots(plan, arena.rng):
                session.watched_call(slot, side.call_deadline_s, sampler.watch)
                if sampler.done:
                    break
        sampler.read_maps()
    finally:
        session.stop()
    account = Account.of(session.child.pid).since(before)
    processor_s = account.user_s + account.system_s
    return Seen(_placed(sampler.samples, program), account.system_s / processor_s if processor_s else 0.0)


def _placed(samples: Samples, program: BuiltProgram) -> Sampled:
    text = next((a.text for a in program.artifacts if a.name == LISTING), None)
    artifact = program.artifact.name if program.artifact is not None else None
    return place_samples(samples, artifact, Listing(text, SOURCE) if text is not None else None)


def _ceilings(bench: Bench, workload: Workload, rates: Rates) -> tuple[Ceiling, ...]:
    seconds = rates.call_us / 1e6
    traffic, operations = bench.reference.traffic_bytes(workload), bench.reference.operations(workload)
    device = bench.ceilings
    found = []
    if rates.cold:
        found.append(
            Ceiling(name="memory bandwidth", achieved=traffic / seconds, ceiling=device.bytes_per_s, unit="bytes/s")
        )
    if operations:
        achieved = operations / seconds
        found.append(
            Ceiling(name="arithmetic", achieved=achieved, ceiling=device.operations_per_s, unit="operations/s")
        )
    return tuple(found)


def _facts(task: Task, rates: Rates, ceilings: tuple[Ceiling, ...], empty_us: float, seen: Seen | None) -> Facts:
    shares = {ceiling.name: ceiling.share for ceiling in ceilings}
    known = Facts(
        call_us=rates.call_us,
        empty_us=empty_us,
        arithmetic=shares.get("arithmetic", 0.0),
        bandwidth=shares.get("memory bandwidth"),
        warm_us=rates.warm_us,
    )
    if seen is None or not seen.placed.samples:
        return known
    busy = seen.placed.busy_threads(task.threads)[: task.threads]
    return replace(
        known,
        # Of short calls it is the channel that takes the time there.
        in_kernel=seen.system_share if rates.call_us > CHANNEL_FACTOR * empty_us else 0.0,
        in_interpreter=seen.placed.interpreter_share,
        busy=sum(busy) / len(busy),
        code=_code(seen.placed),
    )


def _code(sampled: Sampled) -> str:
    """What the hot code is, in words."""
    bits = sampled.widest_bits()
    words = [f"{bits}-bit vectors in {sampled.share(Kind.VECTOR):.0%} of samples" if bits else "scalar code"]
    for kind, name in ((Kind.DIVISION, "divisions"), (Kind.GATHER, "gathers"), (Kind.ATOMIC, "atomics")):
        if sampled.share(kind) >= _LOUD_SHARE:
            words.append(f"{name} in {sampled.share(kind):.0%}")
    return ", ".join(words)


def _compiled(measures: Mapping[str, float]) -> dict[str, Counter]:
    some = sorted(measures.items())[: MOST_COUNTERS // 2]  # the report of a build is the program's own
    return {
        printable(name)[:MOST_TEXT]: Counter(value=value, unit=_UNITS.get(name, "1"), origin="compiled")
        for name, value in some
    }


def _measured(rates: Rates, placed: Sampled | None) -> dict[str, Counter]:
    found = {"page_faults": (rates.page_faults, "1/call")}
    if rates.warm_us is not None:
        found["warm_call_us"] = rates.warm_us, "us"
    if placed is not None:
        found["samples.own_code"] = 100 * placed.own_share, "%"
        found["samples.system_calls"] = 100 * placed.kernel_share, "%"
        if placed.widest_bits():
            found["vector_bits"] = float(placed.widest_bits()), "bits"
        for name, kinds in _MIX.items():
            if share := placed.share(*kinds):
                found[f"samples.{name}"] = 100 * share, "%"
    return {name: Counter(value=value, unit=unit) for name, (value, unit) in found.items()}
