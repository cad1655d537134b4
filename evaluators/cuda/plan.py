"""How a workload is timed on a GPU: K calls in one graph, on slots that together exceed the cache."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from evaluators.plan import COLD_FACTOR, RoundPlan, layout_of
from evaluators.task import Task, Workload

MIN_CALLS, MAX_CALLS = 4, 1024
ROUND_S = 0.008
"""A round is as long as this where slots allow it: launch and reply then are less than one part in a hundred."""
IDLE_SHARE = 8
"""One slot in so many lies ready and is not called: nobody knows which."""
SEQUENCES = 2
SMALL_POOL_BYTES = 1 << 30
"""Up to this many bytes a round has as many calls as there may be: launch and reply weigh on small kernels most."""
POOL_SHARE = 8
"""A round's slots take at most one part in so many of the device's memory: inputs once, outputs for each of up to five
runners, and the same again for the held-out workloads once a program was confirmed."""
LARGE_INPUT_BYTES = 32 << 20
"""Above this comparing one call takes so long that a round is checked on one at least, drawn afterwards."""
CHECKING_SHARE = 0.5
"""The device waits while the host compares, and what waits lowers its clock."""
WHOLE_CALLS = 1
"""Of a confirmation's whole comparison: tens of millions of results are compared on the host."""


def device_plan(
    task: Task, workload: Workload, cache_bytes: int, pool_bytes: int, call_s: float | None, rng: np.random.Generator
) -> RoundPlan:
    """Choose K from the workload's bytes and the strongest baseline's time; draw the orders that are captured.

    A candidate's own pace never enters.

    Args:
        task: whose arguments fill the slots.
        workload: their shapes.
        cache_bytes: the device's last-level cache.
        pool_bytes: what all slots of a round may take.
        call_s: the strongest baseline's time, where it is known.
        rng: draws the orders.
    """
    one = layout_of(task, workload, 1)
    slot_bytes = max(one.input_stride + one.output_stride, 1)
    wanted = math.ceil(COLD_FACTOR * cache_bytes / slot_bytes)
    if call_s is not None:
        wanted = max(wanted, math.ceil(ROUND_S / max(call_s, 1e-6)))
    wanted = max(wanted, SMALL_POOL_BYTES // slot_bytes)
    calls = min(max(wanted, MIN_CALLS), MAX_CALLS, max(pool_bytes // slot_bytes, 1))
    slots = calls + math.ceil(calls / IDLE_SHARE)
    orders = tuple(tuple(int(s) for s in rng.permutation(slots)[:calls]) for _ in range(SEQUENCES))
    layout = replace(layout_of(task, workload, slots), sequences=orders)
    cold = calls * slot_bytes >= COLD_FACTOR * cache_bytes
    checked = 1 if one.input_stride > LARGE_INPUT_BYTES else 4
    return RoundPlan(workload, layout, calls, cold, checked, CHECKING_SHARE, WHOLE_CALLS)
