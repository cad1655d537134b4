"""Brief rounds, for programs so slow that rounds of the baselines' length would keep the device for minutes.

On a CPU such a round is simply cut (:meth:`RoundPlan.shortened`). On a GPU rounds are launched as they were captured,
so other orders, of fewer calls, are captured. Being slow buys nothing: a brief round counts only where a call took
``SLOW_FACTOR`` times as long as the strongest baseline's, so that whatever it says is the score of a slow program; and
as many of its fewer calls are checked. Nor may an empty round, which takes as long however few its calls are, hide what
a call takes: of short calls a brief round has more, and where it would have all of them there is none.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace

from evaluators.calibration import WorkloadCalibration

LONG_ROUND_S = 0.2
"""Rounds of a slow program are not longer than this, if they can be."""
SLOW_FACTOR = 10.0
BRIEF_CALLS = 8
"""At least."""
EMPTY_FACTOR = 10.0
"""A brief round that counts takes so many empty rounds, and the strongest baseline's of as many calls takes one."""
KEPT_PROGRAMS = 4096


class SeenPaces:
    """How quick calls of programs were in checks, kept by source: a program is started again for duels and more."""

    def __init__(self) -> None:
        self._by_source: OrderedDict[str, dict[str, float]] = OrderedDict()

    def of(self, source_hash: str) -> dict[str, float]:
        """Workload -> microseconds of the program's quickest call; whoever sees a call adds to it."""
        found = self._by_source.setdefault(source_hash, {})
        self._by_source.move_to_end(source_hash)
        if len(self._by_source) > KEPT_PROGRAMS:
            self._by_source.popitem(last=False)
        return found


def too_long(calibration: WorkloadCalibration, call_us: float) -> bool:
    """Whether the rounds are too long for a program whose calls seem to take ``call_us``."""
    orders = calibration.plan.layout.sequences
    if not orders or calibration.strongest is None or len(orders[0]) <= brief_calls(calibration):
        return False
    return call_us * len(orders[0]) > 1e6 * LONG_ROUND_S and call_us >= _slow_us(calibration)


def brief_calls(calibration: WorkloadCalibration) -> int:
    """How many calls a brief round of this workload has."""
    empty_round_us = max(calibration.empty_us.values()) * len(calibration.plan.layout.sequences[0])
    return max(math.ceil(EMPTY_FACTOR * empty_round_us / _slow_us(calibration)), BRIEF_CALLS)


def briefly(calibration: WorkloadCalibration) -> WorkloadCalibration:
    """The same workload with the beginnings of the same orders."""
    plan, calls = calibration.plan, brief_calls(calibration)
    orders = tuple(order[:calls] for order in plan.layout.sequences)
    layout = replace(plan.layout, sequences=orders)
    brief = replace(plan, layout=layout, calls=calls, cold=False, least_us=_slow_us(calibration))
    # An empty round takes as long however few its calls are.
    share = len(plan.layout.sequences[0]) / calls
    return replace(calibration, plan=brief, empty_us={name: us * share for name, us in calibration.empty_us.items()})


def _slow_us(calibration: WorkloadCalibration) -> float:
    return SLOW_FACTOR * calibration.baseline_us[calibration.strongest or ""]
