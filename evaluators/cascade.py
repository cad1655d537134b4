"""The stages a kernel candidate goes through, each a plain function over one state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evaluators.arena import Arena
from evaluators.build import BuiltProgram
from evaluators.calibration import Bench, WorkloadCalibration, baseline_side
from evaluators.check_set import CheckCase, CheckSet
from evaluators.checker import Checker
from evaluators.errors import JudgeError
from evaluators.evaluation import Attestation, Stage, Status
from evaluators.failure import CandidateFailure
from evaluators.layout import Layout
from evaluators.pace import briefly, too_long
from evaluators.plan import layout_of
from evaluators.rounds import PairedTimes, Side, draw_slots, one_round, paired_round
from evaluators.session import Session
from evaluators.task import Workload
from evaluators.trail import Trail

WARM_UP_ROUNDS = 2
CHECK_SLOTS = 16
REPEATED = 3
"""Slots of every workload that are called twice."""
Play = Callable[[WorkloadCalibration, int], Iterator[None]]
"""Makes rounds by a calibration, one each time that it is asked for the next; so many were made before."""


@dataclass(frozen=True)
class Block:
    """Rounds of one workload that are played in a row."""

    count: int
    whole: int = 0
    """So many of them, drawn at random, are compared whole."""
    enough: Callable[[int], bool] = lambda done: False
    """Asked after each round, with how many there are: whether to leave it at that."""


@dataclass
class Case:
    """One candidate's live runner, and what was measured of it."""

    program: BuiltProgram
    session: Session
    checker: Checker
    trail: Trail
    prepare_ms: dict[str, float] = field(default_factory=dict)
    times: dict[str, dict[str, PairedTimes]] = field(default_factory=dict)
    """Workload -> baseline -> times of paired rounds."""
    attestation: Attestation | None = None
    pace_us: dict[str, float] = field(default_factory=dict)
    """Workload -> what a call seemed to take before its rounds were chosen."""
    seen_us: dict[str, float] = field(default_factory=dict)
    """Workload -> the quickest that a call was in checks, launching and replying included; of all its processes."""
    fought: Mapping[str, PairedTimes] = field(default_factory=dict)
    """Workload -> times of a duel that the program fought in other processes."""


def smoke(bench: Bench, arena: Arena, case: Case) -> None:
    """One call on the smallest workload: ends most broken candidates within milliseconds."""
    case.trail.enter(Stage.SMOKE)
    workload = min(bench.task.workloads, key=lambda w: layout_of(bench.task, w, 1).slot_bytes)
    check_families(bench, arena, case, workload, [bench.checks.case(workload, bench.reference.families[0])])


def correctness(bench: Bench, arena: Arena, case: Case, workloads: Sequence[Workload], checks: CheckSet) -> None:
    """Every input family on every given workload: right, and the same bits when some are called again."""
    case.trail.enter(Stage.CORRECTNESS)
    for workload in workloads:
        room = max(min(arena.room_for(layout_of(bench.task, workload, 1)), CHECK_SLOTS), 1)
        families = checks.families(workload)
        for start in range(0, len(families), room):
            part = checks.cases(workload, families[start : start + room])
            check_families(bench, arena, case, workload, part)


def check_families(bench: Bench, arena: Arena, case: Case, workload: Workload, families: Sequence[CheckCase]) -> None:
    """One slot for each family: call them in random order, compare, call some again, compare bits."""
    task, rng, session = bench.task, arena.rng, case.session
    prepare(case, layout_of(task, workload, len(families)), task.limits.prepare_s)
    for slot, family in enumerate(families):
        session.store(slot, family.inputs)
    first = _calls(case, [int(s) for s in rng.permutation(len(families))], task.limits.call_s)
    for slot, family in enumerate(families):
        case.checker.check_case(session, slot, workload, family)
    if task.deterministic:
        _repeat(bench, arena, case, workload, families, first)


def _repeat(
    bench: Bench,
    arena: Arena,
    case: Case,
    workload: Workload,
    families: Sequence[CheckCase],
    first: Mapping[int, Mapping[str, object]],
) -> None:
    """Call some of the slots again on the same content: the bits must be the same."""
    task, session = bench.task, case.session
    slots = [int(s) for s in arena.rng.permutation(len(families))[:REPEATED]]
    for slot in slots:
        session.store(slot, {a.name: families[slot].inputs[a.name] for a in task.args if a.role == "inout"})
    again = _calls(case, slots, task.limits.call_s)
    for slot in slots:
        for name, bits in first[slot].items():
            if bits != again[slot][name]:
                raise CandidateFailure(
                    Status.NONDETERMINISTIC,
                    f"{workload.name}, {families[slot].family}: output {name} differs between two calls with the same"
                    " input",
                )


def prepare(case: Case, layout: Layout, deadline_s: float) -> None:
    """PREPARE a workload and book what it cost."""
    started = time.monotonic()
    case.session.prepare(layout, deadline_s)
    took_ms = 1e3 * (time.monotonic() - started)
    case.prepare_ms[layout.workload] = max(took_ms, case.prepare_ms.get(layout.workload, 0.0))


def warm_up(side: Side, calibration: WorkloadCalibration, arena: Arena) -> float:
    """Rounds of one call whose time does not count, but whose outputs are checked; the seconds of the fastest.

    A candidate whose rounds were recorded has run all of them in this process, and nothing depends on how long they
    are: 0.
    """
    if calibration.plan.layout.sequences and side.checker is not None and side.session.captured:
        return 0.0
    times_us = []
    for _ in range(1 if calibration.plan.layout.sequences else WARM_UP_ROUNDS):
        slots = draw_slots(calibration.plan, arena.rng)[:1]
        arena.fill_slots(side.session, calibration.content, slots)
        times_us.append(one_round(side, calibration.plan, slots, arena.rng))
    return min(times_us) / 1e6


def candidate_side(bench: Bench, case: Case, calibration: WorkloadCalibration) -> Side:
    """The candidate's runner, prepared for the workload, as one side of a pair."""
    prepare(case, calibration.plan.layout, bench.task.limits.prepare_s)
    empty_us = calibration.empty_us[case.program.language]
    return Side(case.session, empty_us, bench.task.limits.call_s, case.checker)


def timed_rounds(
    bench: Bench,
    arena: Arena,
    case: Case,
    calibration: WorkloadCalibration,
    opponent: str,
    block: Block,
) -> None:
    """Add a block of paired rounds against one baseline."""
    workload = calibration.plan.workload.name
    times = case.times.setdefault(workload, {}).setdefault(opponent, PairedTimes())
    timed_s = times.timed_s
    compared_whole = {int(index) for index in arena.rng.permutation(block.count)[: block.whole]}

    def play(chosen: WorkloadCalibration, done: int) -> Iterator[None]:
        theirs, their_s = _warm_baseline(bench, arena, chosen, opponent)
        ours = candidate_side(bench, case, chosen)
        plan = chosen.plan.shortened(max(warm_up(ours, chosen, arena), their_s))
        for index in range(done, block.count):
            paired_round(ours, theirs, plan, chosen.content, arena, times, whole=index in compared_whole)
            yield

    try:
        in_pace(bench, arena, calibration, [case], block, times, play)
    except JudgeError:
        arena.discard(opponent)
        raise
    finally:
        case.trail.timed_s += times.timed_s - timed_s


def in_pace(
    bench: Bench,
    arena: Arena,
    calibration: WorkloadCalibration,
    cases: Sequence[Case],
    block: Block,
    times: PairedTimes,
    play: Play,
) -> None:
    """Have a block of rounds played: brief ones where one of the candidates is slow, for as long as it is.

    A single candidate is paired with a baseline, whose times make no round count.
    """
    done = 0
    for chosen in (paced(bench, arena, calibration, *cases), calibration):
        for _ in play(chosen, done):
            if max((times.ours[-1], times.theirs[-1])[: len(cases)]) < chosen.plan.least_us:
                times.withdraw()
                for case in cases:
                    case.pace_us[chosen.plan.workload.name] = 0.0
                break
            times.planned = times.planned or chosen is calibration
            done += 1
            if block.enough(done):
                return
        if done == block.count:
            return


def paced(bench: Bench, arena: Arena, calibration: WorkloadCalibration, *cases: Case) -> WorkloadCalibration:
    """The rounds of a workload for these programs: the planned ones, or brief ones where one of them is slow."""
    slowest_us = max(pace_us(bench, arena, calibration, case) for case in cases)
    return briefly(calibration) if too_long(calibration, slowest_us) else calibration


def paced_alone(bench: Bench, arena: Arena, calibration: WorkloadCalibration, case: Case) -> WorkloadCalibration:
    """The rounds of a workload for a program that is paired with nobody: brief ones where it is slow in them too."""
    chosen = paced(bench, arena, calibration, case)
    if chosen is calibration:
        return calibration
    side = candidate_side(bench, case, chosen)
    warm_up(side, chosen, arena)
    slots = draw_slots(chosen.plan, arena.rng)
    arena.fill(side.session, chosen.content, slots)
    if one_round(side, chosen.plan, slots, arena.rng) >= chosen.plan.least_us:
        return chosen
    case.pace_us[chosen.plan.workload.name] = 0.0
    return calibration


def pace_us(bench: Bench, arena: Arena, calibration: WorkloadCalibration, case: Case) -> float:
    """What a call of a program takes by itself, launched by the host; looked at once. 0 where nobody needs to know.

    Where its calls were quick enough in checks, in this process or another, it is not looked at.
    """
    workload, layout = calibration.plan.workload, calibration.plan.layout
    if not layout.sequences:
        return 0.0
    seen_us = case.seen_us.get(workload.name, math.inf)
    if not too_long(calibration, seen_us):
        return seen_us
    if workload.name not in case.pace_us:
        prepare(case, layout_of(bench.task, workload, 1), bench.task.limits.prepare_s)
        arena.fill_slots(case.session, calibration.content, [0])
        round_us = min(case.session.round([0], bench.task.limits.call_s).call_us for _ in range(WARM_UP_ROUNDS))
        empty_us = calibration.empty_us[case.program.language] * len(layout.sequences[0])
        case.pace_us[workload.name] = max(round_us - empty_us, 0.0)
    return case.pace_us[workload.name]


def _warm_baseline(bench: Bench, arena: Arena, calibration: WorkloadCalibration, name: str) -> tuple[Side, float]:
    """A baseline's side and the seconds of a call. If it fails its runner is ended: the next candidate gets another."""
    try:
        side = baseline_side(bench, arena, calibration, name)
        return side, warm_up(side, calibration, arena)
    except CandidateFailure as failure:
        arena.discard(name)
        workload = calibration.plan.workload.name
        raise JudgeError(f"baseline {name} failed on {workload}: {failure.message}") from failure


def _calls(case: Case, slots: Sequence[int], deadline_s: float) -> dict[int, dict[str, object]]:
    """Call these slots; returns their outputs' digests."""
    session, name = case.session, case.session.layout.workload
    session.guard.poison(slots)
    time = session.round(slots, deadline_s)
    case.seen_us[name] = min(time.call_us, case.seen_us.get(name, math.inf))
    session.inspect(time)
    return {slot: session.digests(slot) for slot in slots}
