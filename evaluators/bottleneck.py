"""What limits a program, from what was measured of it. A rule over a few numbers: the same numbers, the same words."""

from __future__ import annotations

from dataclasses import dataclass

from evaluators.profile import Bottleneck

NEAR_BANDWIDTH = 0.6
"""Of the measured bandwidth: more than this of the traffic that a task needs leaves memory little to spare."""
NEAR_PEAK = 0.5
IN_KERNEL = 0.3
IN_INTERPRETER = 0.5
BUSY = 0.6
"""Threads that are allowed work for less than this on average: the machine stands idle."""
WARM_GAIN = 0.3
"""A call is so much shorter when its data lies in cache: it waits for memory."""


@dataclass(frozen=True)
class Facts:
    """What the rule looks at; ``None`` for what was not measured."""

    call_us: float
    empty_us: float
    """Of an empty call through the same channel."""
    arithmetic: float
    """Achieved operations, as a share of the device's."""
    bandwidth: float | None = None
    """The traffic that the task needs, as a share of what the device can move; ``None`` where rounds are not cold."""
    warm_us: float | None = None
    """Of a call whose data was used a moment ago."""
    in_kernel: float = 0.0
    """Share of the processor's time in the operating system."""
    in_interpreter: float = 0.0
    busy: float | None = None
    """How much of the time each allowed thread works, on average."""
    code: str = ""
    """What the hot code is, in words."""


def find_bottleneck(facts: Facts) -> tuple[Bottleneck | None, str]:
    """What limits the program, and why it is taken for that."""
    rates = f"{facts.arithmetic:.2f} of peak arithmetic"
    if facts.bandwidth is not None:
        rates = f"{facts.bandwidth:.2f} of measured bandwidth, {rates}"
    for holds, kind, why in _rules(facts):
        if holds:
            return kind, f"{why}; {rates}"
    return None, f"neither limit is near; {rates}"


def _rules(facts: Facts) -> list[tuple[bool, Bottleneck, str]]:
    """The first that holds counts: limits of the device before what keeps a program from them."""
    bandwidth, busy = facts.bandwidth or 0.0, 1.0 if facts.busy is None else facts.busy
    waits = 0.0 if facts.warm_us is None else max(1 - facts.warm_us / max(facts.call_us, 1e-9), 0.0)
    code = f": {facts.code}" if facts.code else ""
    return [
        (
            facts.call_us <= facts.empty_us,
            Bottleneck.LAUNCH,
            f"launch-bound: a call takes {facts.call_us:.3g} us, an empty one {facts.empty_us:.3g} us",
        ),
        (bandwidth >= NEAR_BANDWIDTH, Bottleneck.BANDWIDTH, "memory-bound"),
        (facts.arithmetic >= NEAR_PEAK, Bottleneck.COMPUTE, f"compute-bound{code}"),
        (facts.in_kernel >= IN_KERNEL, Bottleneck.SYSTEM, f"{facts.in_kernel:.0%} of its time in the operating system"),
        (
            facts.in_interpreter >= IN_INTERPRETER,
            Bottleneck.INTERPRETER,
            f"{facts.in_interpreter:.0%} of its work is the interpreter's",
        ),
        (busy < BUSY, Bottleneck.OCCUPANCY, f"threads work {busy:.0%} of the time"),
        (waits >= WARM_GAIN, Bottleneck.LATENCY, f"waits for memory {waits:.0%} of its time without filling it"),
        (facts.busy is not None, Bottleneck.COMPUTE, f"busy{code}; far from both limits: latency or instruction mix"),
    ]
