"""Runs inside a builder's process: what compiled Triton kernels use, as measures and as texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluators.builders.resources import Usage, count_instructions, disassemble, dump, occupancy, parse_usage, summary

RESOURCES, ASSEMBLY, SASS = "resources.txt", "kernels.ptx", "kernels.sass"
DISASSEMBLED = 8
"""Kernels whose code is disassembled; of an autotuner's dozens the first few say enough."""
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s+(\d+)"),
    "spills": re.compile(r"\.vgpr_spill_count:\s+(\d+)"),
}


@dataclass(frozen=True)
class _Facts:
    usage: Usage
    counts: Counter[str]
    occupancy: tuple[float, str] | None
    warps: int
    sass: str = ""


def write(work: Path, kernels: Iterable[Any], order: Mapping[str, Any]) -> dict[str, float]:
    """Write the texts beside the cache; returns the measures."""
    kernels = list(kernels)[:DISASSEMBLED]
    facts = [_amd_facts(k) if "amdgcn" in k.asm else _nvidia_facts(work, k, order) for k in kernels]
    (work / RESOURCES).write_text("".join(_line(f) for f in facts))
    (work / ASSEMBLY).write_text("\n".join(k.asm.get("ptx") or k.asm.get("amdgcn") or "" for k in kernels))
    (work / SASS).write_text("\n".join(f.sass for f in facts))
    counts: Counter[str] = Counter()
    for fact in facts:
        counts.update(fact.counts)
    report = summary((f.usage for f in facts), counts)
    shares = [f.occupancy[0] for f in facts if f.occupancy]
    return {**report, **({"occupancy": min(shares)} if shares else {})}


def _nvidia_facts(work: Path, kernel: Any, order: Mapping[str, Any]) -> _Facts:
    usage = Usage(kernel.metadata.name, 0, 0, 0)
    sass = ""
    if order["cuobjdump"] is not None:
        binary = work / "kernel.cubin"
        binary.write_bytes(kernel.asm["cubin"])
        found = parse_usage(dump(order["cuobjdump"], "--dump-resource-usage", binary))
        usage = found[0] if found else usage
        sass = disassemble(order["nvdisasm"], binary)
    # Triton's shared memory is dynamic: only its own metadata knows how much.
    usage = replace(usage, shared_bytes=kernel.metadata.shared)
    warps = kernel.metadata.num_warps
    share = occupancy(order["arch"], usage.registers, usage.shared_bytes, warps) if usage.registers else None
    return _Facts(usage, count_instructions(sass.splitlines()), share, warps, sass)


def _amd_facts(kernel: Any) -> _Facts:
    text = kernel.asm["amdgcn"]
    numbers = {name: max(map(int, pattern.findall(text)), default=0) for name, pattern in _AMD.items()}
    usage = Usage(kernel.metadata.name, numbers["registers"], 4 * numbers["spills"], kernel.metadata.shared)
    counts: Counter[str] = Counter(tensor_core=len(re.findall(r"^\s+v_s?mfma", text, re.MULTILINE)))
    counts["total"] = len(re.findall(r"^\s+[vs]_\w+", text, re.MULTILINE))
    return _Facts(usage, counts, None, kernel.metadata.num_warps)


def _line(facts: _Facts) -> str:
    usage = facts.usage
    limited = f", occupancy {facts.occupancy[0]:.0%} limited by {facts.occupancy[1]}" if facts.occupancy else ""
    return (
        f"{usage.name}: {usage.registers} registers, {usage.local_bytes} bytes of local memory a thread, "
        f"{usage.shared_bytes} bytes of shared memory, {facts.warps} warps, "
        f"{facts.counts['tensor_core']} matrix instructions of {facts.counts['total']}{limited}\n"
    )
