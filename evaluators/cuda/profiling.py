"""What the device's counters add to a profile: traffic, units in use, and each kernel's share."""

from __future__ import annotations

from collections.abc import Sequence

from evaluators.cuda.ncu import DRAM, DURATION, OCCUPANCY, SM, TENSOR, KernelCounters
from evaluators.evaluation import WorkloadAttestation
from evaluators.profile import MOST_HOT_SPOTS, MOST_TEXT, Bottleneck, Ceiling, Counter, HotSpot, Profile
from evaluators.report import printable

NEAR_PEAK = 60.0
"""Of a unit's peak, in per cent: more than this leaves it little to spare."""
FEW_WARPS = 25.0
SHORT_US = 3.0
"""A call whose kernels take less than this is mostly its launch."""


def with_attested(profile: Profile, attested: WorkloadAttestation, bandwidth: float) -> Profile:
    """Add what the recorder and the device's counters saw of the workload's rounds."""
    total_us = sum(use.us for use in attested.kernels)
    spots = [
        HotSpot(share=use.us / max(total_us, 1e-9), function=printable(use.name)[:MOST_TEXT])
        for use in attested.kernels[:MOST_HOT_SPOTS]
    ]
    counters = {
        "kernel_us": Counter(value=attested.kernel_us, unit="us/call"),
        "launches": Counter(value=attested.launches, unit="kernels/call"),
    }
    if attested.kernels:
        first = attested.kernels[0]
        counters |= {
            "registers": Counter(value=first.registers, unit="registers/thread"),
            "local_bytes": Counter(value=first.local_bytes, unit="bytes/thread"),
            "shared_bytes": Counter(value=first.shared_bytes, unit="bytes/block"),
            "blocks": Counter(value=first.blocks, unit="blocks"),
            "threads": Counter(value=first.threads, unit="threads/block"),
        }
    ceilings = profile.ceilings
    if attested.read_bytes is not None and attested.written_bytes is not None and profile.call_us:
        counters |= {
            "dram_read": Counter(value=attested.read_bytes, unit="bytes/call"),
            "dram_written": Counter(value=attested.written_bytes, unit="bytes/call"),
        }
        moved = (attested.read_bytes + attested.written_bytes) / profile.call_us * 1e6
        ceilings = (*ceilings, Ceiling(name="memory traffic", achieved=moved, ceiling=bandwidth, unit="bytes/s"))
    return profile.model_copy(
        update={
            "tool": "cupti",
            "hot_spots": tuple(spots),
            "counters": {**profile.counters, **counters},
            "ceilings": ceilings,
        }
    )


def with_ncu(profile: Profile, kernels: Sequence[KernelCounters]) -> Profile:
    """Add ncu's counters of the kernel that takes longest, and say what limits it."""
    if not kernels:
        return profile
    first = kernels[0]
    counters = {name: Counter(value=value, unit=unit) for name, (value, unit) in first.values.items()}
    bottleneck, reason = _bottleneck(first)
    return profile.model_copy(
        update={
            "tool": "ncu",
            "counters": {**profile.counters, **counters},
            "bottleneck": bottleneck or profile.bottleneck,
            "reason": printable(reason)[:MOST_TEXT] if bottleneck else profile.reason,
        }
    )


def without(profile: Profile, what: str, why: str) -> Profile:
    """Say what could not be measured."""
    words = f"{profile.missing}; {what}: {why}" if profile.missing else f"{what}: {why}"
    return profile.model_copy(update={"missing": printable(" ".join(words.split()))[:MOST_TEXT]})


def _bottleneck(kernel: KernelCounters) -> tuple[Bottleneck | None, str]:
    """A rule over four numbers: limits of the device before what keeps a kernel from them."""
    dram, sm, tensor, warps = (kernel.value(metric) for metric in (DRAM, SM, TENSOR, OCCUPANCY))
    duration_ns = kernel.value(DURATION)
    if dram is None or sm is None or duration_ns is None:
        return None, ""
    rates = f"device memory at {dram:.0f} % of its peak, multiprocessors at {sm:.0f} %"
    if dram >= NEAR_PEAK and dram >= sm:
        return Bottleneck.BANDWIDTH, f"memory-bound: {rates}"
    if max(sm, tensor or 0.0) >= NEAR_PEAK:
        return Bottleneck.COMPUTE, f"compute-bound: {rates}, matrix units at {tensor or 0:.0f} %"
    if duration_ns < 1e3 * SHORT_US:
        return Bottleneck.LAUNCH, f"launch-bound: a kernel of {duration_ns / 1e3:.2g} us; {rates}"
    if warps is not None and warps < FEW_WARPS:
        return Bottleneck.OCCUPANCY, f"too few warps: {warps:.0f} % of what fits; {rates}"
    return Bottleneck.LATENCY, f"waits: {rates}, warps at {warps or 0:.0f} %"
