"""How a workload is timed: how many calls make a round, and how many slots lie ready for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evaluators.layout import Layout, plan
from evaluators.shapes import axis_names, evaluate_shape
from evaluators.task import Task, Workload

COLD_FACTOR = 2
"""A round's buffers exceed this many last-level caches, so that nothing of the round before is still in one."""
MIN_CALLS, MAX_CALLS = 2, 256
TARGET_ROUND_S = 0.1
"""A round of the strongest baseline is not made longer than this for the sake of cold caches."""
LONGEST_ROUND_S = 5 * TARGET_ROUND_S
"""A round of a program much slower than the baseline is cut to this: it must not keep the device for minutes."""
POOL_FACTOR = 2
"""Slots ready per call of a round: work done ahead on a guess is wasted half of the time."""
MAX_POOL_BYTES = 768 << 20


MOST_TURNS, TURN_S = 16, 0.0005
"""A round on a CPU is taken in so many turns at most, of at least this length; the paired program takes its own in
between. What others do to the memory and the clock of a machine lasts for tens of milliseconds: the ratio of two blocks
of 6 ms, one after the other, strayed by 14 %, and by 2 % with turns of 0.4 ms (docs/timing.md). In a shorter turn the
awakening at its start would be too large a part."""


@dataclass(frozen=True)
class RoundPlan:
    """One workload's rounds."""

    workload: Workload
    layout: Layout
    calls: int
    """K: calls in a round."""
    cold: bool
    """True where a round's buffers exceed ``COLD_FACTOR`` last-level caches."""
    checked_calls: int = 4
    """Calls of every round whose outputs are compared with the oracle, drawn after the runner has stopped."""
    checking_share: float = 1.0
    """Of the time after a round in which more calls are compared than that, how much may be taken here."""
    whole_calls: int | None = None
    """Calls of a round whose outputs are compared whole, where a round is; ``None``: all."""
    turns: int = 1
    """Into how many turns a round's calls are divided."""
    least_us: float = 0.0
    """A round counts only where a call of a candidate took so long: it was planned for a slow program."""

    def turn_lengths(self, calls: int) -> list[int]:
        """How many of so many calls each turn has: as equal as can be."""
        turns = max(min(self.turns, calls), 1)
        return [calls // turns + (index < calls % turns) for index in range(turns)]

    def shortened(self, call_s: float) -> RoundPlan:
        """The plan for a pair of which one takes ``call_s``: fewer calls where all of them would take too long.

        Being slow at first buys nothing: the same slots lie ready, and of fewer calls a larger share is compared.
        Rounds that were captured cannot be cut: see :mod:`evaluators.pace`.
        """
        if self.layout.sequences:
            return self
        calls = min(self.calls, max(math.ceil(LONGEST_ROUND_S / max(call_s, 1e-9)), 1))
        return replace(self, calls=calls, cold=self.cold and calls == self.calls)


def layout_of(task: Task, workload: Workload, slots: int) -> Layout:
    """The workload's arguments in ``slots`` slots."""
    args = [(a.name, a.role, a.dtype, evaluate_shape(a, workload.axes)) for a in task.args]
    scalars = tuple(workload.axes[name] for name in axis_names(task.args))
    return plan(workload.name, scalars, args, slots)


def round_plan(task: Task, workload: Workload, cache_bytes: int, call_s: float | None = None) -> RoundPlan:
    """Choose K from the workload's bytes alone, or also from the strongest baseline's time where that is known.

    A candidate's own pace never enters: being slow at first must not buy fewer rounds.
    """
    one = layout_of(task, workload, 1)
    slot_bytes = one.input_stride + one.output_stride
    wanted = math.ceil(COLD_FACTOR * cache_bytes / max(slot_bytes, 1))
    calls = min(max(wanted, MIN_CALLS), MAX_CALLS)
    if call_s is not None:
        calls = min(calls, max(math.ceil(TARGET_ROUND_S / call_s), 1))
    calls = min(calls, max(MAX_POOL_BYTES // (POOL_FACTOR * max(slot_bytes, 1)), 1))
    layout = layout_of(task, workload, POOL_FACTOR * calls)
    turns = MOST_TURNS if call_s is None else min(max(int(calls * call_s / TURN_S), 1), MOST_TURNS)
    return RoundPlan(workload, layout, calls, calls * slot_bytes >= COLD_FACTOR * cache_bytes, turns=turns)
