"""How many rounds a candidate gets: rounds until a look at its interval decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from evaluators.arena import Arena
from evaluators.calibration import Bench, WorkloadCalibration
from evaluators.cascade import Block, Case, timed_rounds
from evaluators.confidence import least_rounds, ratio_interval
from evaluators.evaluation import Interval
from evaluators.report import NOISY_HALF_WIDTH
from evaluators.scoring import ALPHA, GLANCE_ALPHA, combined_log_ratios, relative_half_width
from evaluators.task import Workload

GLANCE = least_rounds(GLANCE_ALPHA)
FIRST_LOOK = least_rounds(ALPHA)
LOOK_EVERY = 5
MOST_ROUNDS = 15
GOOD_HALF_WIDTH = 0.05
"""A score's interval at most this wide, relative, is good enough to stop."""
CONTENDER_SHARE = 0.95
"""A candidate whose interval lies below this share of the best score seen gets no more than the first look's rounds."""
FAR_SHARE = 0.8
"""One whose interval at a glance lies below this share of it gets no more than the glance's. To be dropped for a burst
of noise, a program as good as the best would have to seem slower by a fifth in every single one of those rounds."""
CONFIRMATION_ROUNDS = 15
WHOLE_ROUNDS = 1
"""Rounds against the strongest baseline, in a confirmation, whose outputs are compared whole."""


@dataclass(frozen=True)
class Looks:
    """Rounds of candidates against baselines, and what they come to."""

    bench: Bench
    arena: Arena
    calibrations: Mapping[str, WorkloadCalibration]
    """By workload."""
    weights: Mapping[str, float]
    """Of the workloads that count."""

    def speedup(self, case: Case, best: float) -> Interval | None:
        """Rounds against the strongest baselines until the interval is narrow, or the rounds run out.

        Nobody needs to know more exactly how far a program is behind: one that is far behind ``best``, the best score
        that was seen (0: none), gets only the rounds of a glance, with an interval of that level. ``None``: there is
        nothing to compare with.
        """
        interval = self._glance(case, best)
        if interval is not None:
            return interval
        rounds = FIRST_LOOK
        self._fill_up(case, rounds)
        while True:
            interval = self.interval(case)
            if interval is None or rounds >= MOST_ROUNDS or _good_enough(interval, best):
                return interval
            rounds += LOOK_EVERY
            self._fill_up(case, rounds)

    def fixed_rounds(self, *, every_baseline: bool) -> list[tuple[Workload, int]]:
        """How many rounds of each workload :meth:`fixed` makes."""
        found = []
        for name in self.weights:
            calibration = self.calibrations[name]
            opponents = len(calibration.baseline_us if every_baseline else calibration.contenders)
            found.append((calibration.plan.workload, CONFIRMATION_ROUNDS + FIRST_LOOK * max(opponents - 1, 0)))
        return found

    def fixed(self, case: Case, *, every_baseline: bool) -> Interval | None:
        """A confirmation's rounds, against the other contenders too, or against every baseline."""
        for name in self.weights:
            self._rounds(case, name, Block(CONFIRMATION_ROUNDS, WHOLE_ROUNDS))
            calibration = self.calibrations[name]
            for baseline in calibration.baseline_us:
                if baseline == calibration.strongest:
                    continue
                if baseline in calibration.contenders:
                    timed_rounds(self.bench, self.arena, case, calibration, baseline, Block(FIRST_LOOK))
                elif every_baseline:
                    single = replace(calibration, plan=replace(calibration.plan, calls=1, cold=False))
                    timed_rounds(self.bench, self.arena, case, single, baseline, Block(FIRST_LOOK))
        return self.interval(case)

    def whole(self, case: Case) -> Interval | None:
        """A first look's rounds, each compared whole."""
        for name in self.weights:
            self._rounds(case, name, Block(FIRST_LOOK, FIRST_LOOK))
        return self.interval(case)

    def interval(self, case: Case, alpha: float = ALPHA) -> Interval | None:
        """The speed-up as far as it is known; ``None`` where there is nothing to compare with."""
        return self._over(case, self.weights, alpha)

    def _glance(self, case: Case, best: float) -> Interval | None:
        """The interval of a few rounds where they show that the program is far behind, else ``None``.

        A workload goes on to the first look at once where, with those before it, it does not look as if they would:
        rounds that are asked for later have to be prepared again.
        """
        seen: list[str] = []

        def far(done: int) -> bool:
            return done == GLANCE and _far_behind(self._over(case, seen, GLANCE_ALPHA), best)

        for name in self.weights:
            seen.append(name)
            self._rounds(case, name, Block(FIRST_LOOK, enough=far))
            if self._done(case, name) != GLANCE:
                return None
        interval = self.interval(case, GLANCE_ALPHA)
        return interval if _far_behind(interval, best) else None

    def _fill_up(self, case: Case, rounds: int) -> None:
        """What every workload lacks of so many rounds."""
        for name in self.weights:
            missing = rounds - self._done(case, name)
            if missing:
                self._rounds(case, name, Block(missing))

    def _done(self, case: Case, workload: str) -> int:
        strongest = self.calibrations[workload].strongest
        times = case.times.get(workload, {}).get(strongest or "")
        return 0 if times is None else len(times.ours)

    def _rounds(self, case: Case, workload: str, block: Block) -> None:
        calibration = self.calibrations[workload]
        if calibration.strongest is not None:
            timed_rounds(self.bench, self.arena, case, calibration, calibration.strongest, block)

    def _over(self, case: Case, workloads: Collection[str], alpha: float) -> Interval | None:
        """The speed-up over some of the workloads, or as far as it is known over all."""
        strongest = {name: self.calibrations[name].strongest for name in workloads}
        times = {name: case.times[name][best] for name, best in strongest.items() if best is not None}
        if len(times) < len(workloads):
            return None
        total = sum(self.weights[name] for name in workloads)
        shares = {name: self.weights[name] / total if total else 1 / len(workloads) for name in workloads}
        return ratio_interval(combined_log_ratios(times, shares), alpha)


def _far_behind(interval: Interval | None, best: float) -> bool:
    """Whether a glance is enough. One too wide to be a measurement is not: it would leave a right program unscored."""
    if interval is None or relative_half_width(interval) > NOISY_HALF_WIDTH:
        return False
    return interval.high < FAR_SHARE * best


def _good_enough(interval: Interval, best: float) -> bool:
    """Narrow enough; or behind the best that this judge has seen."""
    return interval.high < CONTENDER_SHARE * best or relative_half_width(interval) <= GOOD_HALF_WIDTH
