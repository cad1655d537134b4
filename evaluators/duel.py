"""Two programs against each other: the only way into an occupied archive cell of a time-scored task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from evaluators.arena import Arena
from evaluators.calibration import Bench, WorkloadCalibration
from evaluators.cascade import Block, Case, candidate_side, in_pace, pace_us, warm_up
from evaluators.confidence import least_rounds, ratio_interval
from evaluators.evaluation import Duel, DuelOutcome, Interval
from evaluators.failure import CHALLENGER, OCCUPANT, CandidateFailure
from evaluators.rounds import PairedTimes, Side, paired_round
from evaluators.scoring import ALPHA, DELTA, combined_log_ratios, crowded, duel_outcome, normalised_weights
from evaluators.trail import Trail

FIRST_LOOK = least_rounds(ALPHA)
LOOK_EVERY = 5
MOST_ROUNDS = 30


LEAST_PAIRS = 3
"""A win takes rounds of so many pairs of processes: where the buffers of one happen to lie may make it faster than
another that runs the same program, for as long as it lives."""

StartPair = Callable[[], AbstractContextManager[tuple[Case, Case]]]
"""Starts a process for each of the two, challenger first, and ends them."""


def run_duel(
    bench: Bench,
    arena: Arena,
    calibrations: Mapping[str, WorkloadCalibration],
    start: StartPair,
    trail: Trail,
    times: dict[str, PairedTimes],
    *,
    won: Callable[[Case], None] = lambda challenger: None,
) -> Duel:
    """Paired rounds on every search workload until the confidence sequence decides, or the rounds run out.

    Args:
        bench: the task and what its candidates share.
        arena: where the runners live.
        calibrations: by workload.
        start: starts the two.
        trail: the challenger's, for the cost.
        times: where they go, by workload.
        won: called with the challenger where it has won, while its last process is alive.
    """
    weights = normalised_weights(bench.task.search_workloads())
    times |= {name: PairedTimes() for name in weights}
    interval: Interval | None = None
    outcome: DuelOutcome | None = None
    waited: float | None = None
    rounds = pairs = 0

    def decides(done: int, challenger: Case) -> bool:
        nonlocal interval, outcome, waited, rounds, pairs
        rounds, pairs = done, pairs + 1
        interval = ratio_interval(combined_log_ratios(times, weights), ALPHA)
        outcome, waited = duel_outcome(interval), crowded(times.values())
        if _goes_on(outcome, interval, rounds, pairs):
            return False
        trail.timed_s = sum(series.timed_s for series in times.values())
        if outcome is DuelOutcome.CHALLENGER and waited is None:
            won(challenger)
        return True

    play_blocks(bench, arena, calibrations, start, times, decides)
    if waited is not None:
        words = f"too noisy: both waited {100 * waited:.0f} % of the time for a core; others use this machine"
        return Duel(
            outcome=DuelOutcome.UNDECIDED, ratio=None, rounds=rounds, noisy=True, message=words, cost=trail.cost()
        )
    return Duel(outcome=outcome or DuelOutcome.UNDECIDED, ratio=interval, rounds=rounds, cost=trail.cost())


def _goes_on(outcome: DuelOutcome | None, interval: Interval | None, rounds: int, pairs: int) -> bool:
    """Whether another pair of processes is to play, after so many."""
    if rounds >= MOST_ROUNDS:
        return False
    if outcome is not None:
        return outcome is DuelOutcome.CHALLENGER and pairs < LEAST_PAIRS
    # It may be a little faster, but does not look it: the occupant stays, and others get the time.
    return interval is None or interval.estimate >= 1 + DELTA


def play_blocks(
    bench: Bench,
    arena: Arena,
    calibrations: Mapping[str, WorkloadCalibration],
    start: StartPair,
    times: Mapping[str, PairedTimes],
    enough: Callable[[int, Case], bool],
) -> None:
    """One block of rounds on every workload after another, each with new processes, until it is enough.

    Args:
        bench: the task and what its candidates share.
        arena: where the runners live.
        calibrations: by workload.
        start: starts the two.
        times: workload -> where its times go.
        enough: asked after each block, with the rounds so far and the challenger, whose process is still alive.
    """
    rounds, block = 0, FIRST_LOOK
    while True:
        with start() as pair:
            for name, series in times.items():
                measure_block(bench, arena, calibrations[name], pair, block, series)
            rounds, block = rounds + block, LOOK_EVERY
            if enough(rounds, pair[0]):
                return


def failed_duel(failure: CandidateFailure, trail: Trail) -> Duel:
    """A duel that ended because one of the two failed."""
    if failure.whose == CHALLENGER:
        return Duel(
            outcome=DuelOutcome.FAILED,
            ratio=None,
            failure=failure.status,
            message=failure.message,
            cost=trail.cost(),
        )
    words = f"the occupant failed: {failure.status.value}: {failure.message}"
    return Duel(outcome=DuelOutcome.UNDECIDED, ratio=None, message=words, cost=trail.cost())


def measure_block(
    bench: Bench,
    arena: Arena,
    calibration: WorkloadCalibration,
    pair: tuple[Case, Case],
    count: int,
    times: PairedTimes,
) -> None:
    """``count`` rounds of one workload by two live programs; appends to ``times``."""
    whose = CHALLENGER, OCCUPANT
    for case, name in zip(pair, whose, strict=True):
        with _blaming(name):
            pace_us(bench, arena, calibration, case)

    def play(chosen: WorkloadCalibration, done: int) -> Iterator[None]:
        (ours, our_s), (theirs, their_s) = (
            _side(bench, arena, chosen, case, name) for case, name in zip(pair, whose, strict=True)
        )
        plan = chosen.plan.shortened(max(our_s, their_s))
        for _ in range(done, count):
            paired_round(ours, theirs, plan, chosen.content, arena, times)
            yield

    in_pace(bench, arena, calibration, pair, Block(count), times, play)


def _side(bench: Bench, arena: Arena, calibration: WorkloadCalibration, case: Case, whose: str) -> tuple[Side, float]:
    """One side, warm, and the seconds that a call of it takes."""
    with _blaming(whose):
        side = replace(candidate_side(bench, case, calibration), whose=whose)
        return side, warm_up(side, calibration, arena)


@contextmanager
def _blaming(whose: str) -> Iterator[None]:
    try:
        yield
    except CandidateFailure as failure:
        failure.whose = whose
        raise
