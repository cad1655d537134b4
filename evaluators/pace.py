"""Brief rounds, for programs so slow that rounds of the baselines' length would keep the device for minutes.

On a CPU such a round is simply cut (:meth:`RoundPlan.shortened`). On a GPU rounds are launched as they were captured,
so other orders, of fewer calls, are captured. Being slow buys nothing: a brief round counts only where a call took
``SLOW_FACTOR`` times as long as the strongest baseline's, so that whatever it says is the score of a slow program; and
as many of its fewer calls are checked.
"""

from __future__ import annotations

from dataclasses import replace

from evaluators.calibration import WorkloadCalibration

LONG_ROUND_S = 0.2
"""Rounds of a slow program are not longer than this, if they can be."""
SLOW_FACTOR = 10.0
BRIEF_CALLS = 8


def too_long(calibration: WorkloadCalibration, call_us: float) -> bool:
    """Whether the rounds are too long for a program whose calls seem to take ``call_us``."""
    orders = calibration.plan.layout.sequences
    if not orders or calibration.strongest is None or len(orders[0]) <= BRIEF_CALLS:
        return False
    return call_us * len(orders[0]) > 1e6 * LONG_ROUND_S and call_us >= _slow_us(calibration)


def briefly(calibration: WorkloadCalibration) -> WorkloadCalibration:
    """The same workload with the beginnings of the same orders."""
    plan = calibration.plan
    orders = tuple(order[:BRIEF_CALLS] for order in plan.layout.sequences)
    layout = replace(plan.layout, sequences=orders)
    brief = replace(plan, layout=layout, calls=BRIEF_CALLS, cold=False, least_us=_slow_us(calibration))
    # An empty round takes as long however few its calls are.
    share = len(plan.layout.sequences[0]) / BRIEF_CALLS
    return replace(calibration, plan=brief, empty_us={name: us * share for name, us in calibration.empty_us.items()})


def _slow_us(calibration: WorkloadCalibration) -> float:
    return SLOW_FACTOR * calibration.baseline_us[calibration.strongest or ""]
