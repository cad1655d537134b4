"""Paired, interleaved rounds of two live runners on the same fresh content: the only way a speed is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from evaluators.arena import Arena
from evaluators.checker import Checker
from evaluators.content import ContentPool
from evaluators.dtypes import Array
from evaluators.errors import JudgeError
from evaluators.failure import CHALLENGER, CandidateFailure
from evaluators.plan import RoundPlan
from evaluators.session import RoundTime, Session
from evaluators.surprise import TRIAL_SHARE, Surprise

RESOLUTION = 0.4
"""A call is never taken to be shorter than this share of the empty call: below lies what a program can hide, namely
what it still does between its reply and the judge's look at the output (3 to 5 us), and noise of the subtraction."""
MOST_CHECKED_CALLS = 16
"""Where comparing is cheap, as many more calls than the plan asks for are compared as the budget lasts for."""
CHECKING_BUDGET_S = 0.004


@dataclass(frozen=True)
class Side:
    """One of the two programs of a pair."""

    session: Session
    empty_call_us: float
    """What a call of our own empty program costs through the same channel, calibrated for this plan and language."""
    call_deadline_s: float
    checker: Checker | None
    """``None`` for a baseline, whose outputs were checked when it was calibrated: what fails in it is our fault."""
    whose: str = CHALLENGER
    """Who is to blame for a failure of this side, in a duel."""


@dataclass
class PairedTimes:
    """Times of the same rounds, one entry a round, microseconds a call."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    """For each round the smaller of the two programs' waited shares: a program can make itself wait, not the other."""
    unresolved: list[bool] = field(default_factory=list)
    """For each round whether both programs' calls were too short to be told apart."""
    planned: bool = False
    """Whether some of them are rounds that were planned for the workload, and not brief ones for slow programs."""
    timed_s: float = 0.0
    """Between *go* and reply, both programs' rounds together."""

    def withdraw(self) -> None:
        """Forget the last round; its time remains spent."""
        for series in (self.ours, self.theirs, self.waited, self.unresolved):
            series.pop()

    def log_ratios(self) -> list[float]:
        """``log(theirs / ours)``: above 0 where ours is faster."""
        return [math.log(b / a) for a, b in zip(self.ours, self.theirs, strict=True)]


def draw_slots(plan: RoundPlan, rng: np.random.Generator) -> list[int]:
    """The slots of one round's calls, in calling order."""
    if plan.layout.sequences:
        return list(plan.layout.sequences[int(rng.integers(len(plan.layout.sequences)))])
    return [int(s) for s in rng.permutation(plan.layout.slots)[: plan.calls]]


def lone_round(session: Session, plan: RoundPlan, slots: list[int], call_deadline_s: float) -> RoundTime:
    """A round in the plan's turns although nobody takes turns with it: what stopping and going on costs is the same."""
    *_, time = session.in_turns(slots, call_deadline_s, plan.turn_lengths(len(slots)))
    assert time is not None
    return time


def one_round(side: Side, plan: RoundPlan, slots: list[int], rng: np.random.Generator, *, whole: bool = False) -> float:
    """Poison, run and check one program on content that is already there; microseconds a call, empty call taken off."""
    side.session.guard.poison(slots)
    before = side.session.before(slots) if _changes_in_place(side.session) else {}
    time = lone_round(side.session, plan, slots, side.call_deadline_s)
    _check(side, plan, time, before, rng, whole=whole)
    return _net_us(side, time)


def paired_round(
    ours: Side,
    theirs: Side,
    plan: RoundPlan,
    content: ContentPool,
    arena: Arena,
    times: PairedTimes,
    *,
    whole: bool = False,
) -> None:
    """One round of both, in turns, on the same content and the same calls; appends to ``times``.

    Before it, by chance, come trials, of which only the time spent is kept. On a device whose rounds were recorded
    beforehand there are none: it would have to wait for their inputs.
    """
    pair = ours, theirs
    slots, instead, is_trial = _draw(ours, plan, arena.rng)
    while is_trial:
        times.timed_s += _timed_s(_play(pair, plan, slots, content, arena, instead))
        slots, instead, is_trial = _draw(ours, plan, arena.rng)
    rounds = _play(pair, plan, slots, content, arena, instead, whole=whole)
    net_us = [_net_us(side, time) for side, time in zip(pair, rounds, strict=True)]
    for series, call_us in zip((times.ours, times.theirs), net_us, strict=True):
        series.append(call_us)
    times.timed_s += _timed_s(rounds)
    times.waited.append(min(time.waited_share for time in rounds))
    times.unresolved.append(all(us <= _least_us(side) for side, us in zip(pair, net_us, strict=True)))


def _draw(ours: Side, plan: RoundPlan, rng: np.random.Generator) -> tuple[list[int], list[Surprise], bool]:
    """A round's calls, what some of them get instead of the content, and whether it is a trial."""
    slots = draw_slots(plan, rng)
    surprises = ours.checker.surprises if ours.checker is not None else None
    if surprises is None:
        return slots, [], False
    trials = not plan.layout.sequences
    surprises.get_ready(plan.workload, len(slots), trials=trials)
    if trials and rng.random() < TRIAL_SHARE:
        return slots, surprises.trial(plan.workload, slots), True
    return slots, surprises.draw(plan.workload, slots), False


def _timed_s(rounds: Sequence[RoundTime]) -> float:
    return sum(time.total_ns for time in rounds) / 1e9


def _play(
    pair: tuple[Side, Side],
    plan: RoundPlan,
    slots: list[int],
    content: ContentPool,
    arena: Arena,
    surprises: Sequence[Surprise],
    *,
    whole: bool = False,
) -> tuple[RoundTime, RoundTime]:
    """Both programs' rounds, checked: fresh content in every slot but those of the surprises.

    Nothing else happens between filling and the end of the last turn: a judge that computes on one core meanwhile
    would leave the program whose turn it is a lopsided machine.
    """
    rng, (ours, theirs) = arena.rng, pair
    for side in pair:
        side.session.guard.poison(slots)
    arena.fill(ours.session, content, slots, {slot: one.case.inputs for one in surprises for slot in one.slots})
    before: Mapping[int, Mapping[str, Array]] = {}
    if _changes_in_place(ours.session):
        ours.session.give_inouts(theirs.session, slots)
        before = ours.session.before(slots)
    rounds = _take_turns(pair if rng.integers(2) else (theirs, ours), plan, slots)
    for side in pair:
        with _blaming(side, plan):
            _check(side, plan, rounds[id(side)], before, rng, surprises, whole=whole and side is ours)
    return rounds[id(ours)], rounds[id(theirs)]


def _take_turns(pair: tuple[Side, Side], plan: RoundPlan, slots: list[int]) -> dict[int, RoundTime]:
    """Both programs' calls, a turn each, in the order 1 2 2 1 1 2 2 1 ...: what drifts meets both alike.

    The second calls the same slots half a round apart: inputs are shared, and those that the first has just read lie in
    the cache, which is not what is measured, and tells which slots are about to be called.
    """
    lengths = plan.turn_lengths(len(slots))
    half = sum(lengths[: len(lengths) // 2])
    orders = (slots, [*slots[half:], *slots[:half]])
    playing = {
        id(side): side.session.in_turns(order, side.call_deadline_s, lengths)
        for side, order in zip(pair, orders, strict=True)
    }
    rounds: dict[int, RoundTime] = {}
    for turn in range(len(lengths)):
        for side in pair if turn % 2 == 0 else pair[::-1]:
            with _blaming(side, plan):
                time = next(playing[id(side)])
            if time is not None:
                rounds[id(side)] = time
    return rounds


def _net_us(side: Side, time: RoundTime) -> float:
    return max(time.call_us - side.empty_call_us, _least_us(side))


def _least_us(side: Side) -> float:
    return RESOLUTION * side.empty_call_us


def _check(
    side: Side,
    plan: RoundPlan,
    time: RoundTime,
    before: Mapping[int, Mapping[str, Array]],
    rng: np.random.Generator,
    surprises: Sequence[Surprise] = (),
    *,
    whole: bool,
) -> None:
    """What a round left, and some of its outputs against the oracle (all of them, every row, with ``whole``)."""
    session, checker = side.session, side.checker
    session.inspect(time)
    if checker is None:
        return
    for surprise in surprises:
        checker.check_surprise(session, plan.workload, surprise)
    others = {slot for surprise in surprises for slot in surprise.slots}
    ordinary = [slot for slot in time.slots if slot not in others]
    family = checker.ordinary_family
    for slot, rows in session.left_alone(ordinary) if before else ():
        checker.check(session, slot, plan.workload, family, inputs=_given(session, slot, before), rows=rows)
    suspects = session.guard.unwritten_among(ordinary)
    least = len(suspects) + ((plan.whole_calls or len(ordinary)) if whole else plan.checked_calls)
    deadline = monotonic() + CHECKING_BUDGET_S
    for checked, slot in enumerate([*suspects, *(int(slot) for slot in rng.permutation(ordinary))]):
        if checked >= least and (whole or checked >= MOST_CHECKED_CALLS or monotonic() > deadline):
            break
        given = _given(session, slot, before)
        every_row = whole or slot in suspects
        checker.check(session, slot, plan.workload, family, inputs=given, whole=every_row)


@contextmanager
def _blaming(side: Side, plan: RoundPlan) -> Iterator[None]:
    try:
        yield
    except CandidateFailure as failure:
        if side.checker is None:
            raise JudgeError(f"a baseline failed on {plan.workload.name}: {failure.message}") from failure
        failure.whose = side.whose
        raise


def _changes_in_place(session: Session) -> bool:
    return any(p.role == "inout" for p in session.layout.places)


def _given(session: Session, slot: int, before: Mapping[int, Mapping[str, Array]]) -> Mapping[str, Array] | None:
    return {**session.arguments(slot), **before[slot]} if before else None
