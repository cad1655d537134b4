"""What compiled Triton kernels use, as measures and as texts, read from the files that a build left.

Runs in a builder's process that has not imported the program: the files are data from an enemy.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluators.builders.base import BuildRefused
from evaluators.builders.resources import Usage, count_instructions, disassemble, dump, occupancy, parse_usage, summary

RESOURCES, SASS = "resources.txt", "kernels.sass"
DISASSEMBLED = 8
"""Kernels whose code is disassembled, the longest; of an autotuner's dozens they say enough."""
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s+(\d+)"),
    "spills": re.compile(r"\.vgpr_spill_count:\s+(\d+)"),
}
_MATRIX = re.compile(r"^\s+v_s?mfma", re.MULTILINE)
_ANY = re.compile(r"^\s+[vs]_\w+", re.MULTILINE)
_MOST_WARPS = 32


@dataclass(frozen=True)
class _Kernel:
    """One compiled kernel: its code, and what Triton launches it with."""

    path: Path
    code: bytes
    shared_bytes: int
    """Dynamic: only Triton's own metadata knows how much."""
    warps: int


@dataclass(frozen=True)
class _Facts:
    usages: tuple[Usage, ...]
    counts: Counter[str]
    warps: int
    occupancy: tuple[float, str] | None = None
    sass: str = ""


def write(work: Path, built: Path, order: Mapping[str, Any]) -> dict[str, float]:
    """Write the texts; returns the measures.

    Raises:
        BuildRefused: a kernel cannot be read.
    """
    kernels = _kernels(built)
    if not kernels:
        raise BuildRefused("error: the build left no kernel")
    facts = _all_facts(kernels, order)
    if facts[0].usages:
        (work / RESOURCES).write_text("".join(_lines(f) for f in facts))
    (work / SASS).write_text("\n".join(f.sass for f in facts if f.sass))
    counts: Counter[str] = Counter()
    for fact in facts:
        counts.update(fact.counts)
    report = summary((usage for fact in facts for usage in fact.usages), counts) | {"kernels": float(len(facts))}
    shares = [f.occupancy[0] for f in facts if f.occupancy]
    return {**report, **({"occupancy": min(shares)} if shares else {})}


def _kernels(built: Path) -> list[_Kernel]:
    """Every kernel once, the longest first: which file name or folder it has tells nothing."""
    found: dict[str, _Kernel] = {}
    for path in sorted([*built.rglob("*.cubin"), *built.rglob("*.amdgcn")]):
        kernel = _Kernel(path, path.read_bytes(), *_launched_with(path.with_suffix(".json")))
        key = hashlib.sha256(kernel.code).hexdigest() + f"-{kernel.shared_bytes}-{kernel.warps}"
        found.setdefault(key, kernel)
    return [found[key] for key in sorted(found, key=lambda key: (-len(found[key].code), key))]


def _launched_with(metadata: Path) -> tuple[int, int]:
    """Bytes of shared memory and number of warps."""
    try:
        facts = json.loads(metadata.read_bytes())
        shared, warps = facts["shared"], facts["num_warps"]
        if isinstance(shared, int) and isinstance(warps, int) and shared >= 0 and 0 < warps <= _MOST_WARPS:
            return shared, warps
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        pass
    raise BuildRefused(f"error: {metadata.name}: no metadata of a kernel")


def _all_facts(kernels: list[_Kernel], order: Mapping[str, Any]) -> list[_Facts]:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        asked = [pool.submit(_facts, kernel, order, whole=i < DISASSEMBLED) for i, kernel in enumerate(kernels)]
        return [one.result() for one in asked]


def _facts(kernel: _Kernel, order: Mapping[str, Any], *, whole: bool) -> _Facts:
    if kernel.path.suffix == ".amdgcn":
        return _amd_facts(kernel)
    if order["cuobjdump"] is None:
        return _Facts((), Counter(), kernel.warps)
    found = parse_usage(dump(order["cuobjdump"], "--dump-resource-usage", kernel.path))
    if not found:
        raise BuildRefused(f"error: {kernel.path.name}: cuobjdump finds no kernel in it")
    usages = tuple(replace(usage, shared_bytes=kernel.shared_bytes) for usage in found)
    sass = disassemble(order["nvdisasm"], kernel.path) if whole else ""
    registers = max(usage.registers for usage in usages)
    share = occupancy(order["arch"], registers, kernel.shared_bytes, kernel.warps) if registers else None
    return _Facts(usages, count_instructions(sass.splitlines()), kernel.warps, share, sass)


def _amd_facts(kernel: _Kernel) -> _Facts:
    """From the assembly that was left beside the binary: such programs are compiled and never timed."""
    text = kernel.code.decode(errors="replace")
    numbers = {name: max(map(int, pattern.findall(text)), default=0) for name, pattern in _AMD.items()}
    usage = Usage(kernel.path.stem, numbers["registers"], 4 * numbers["spills"], kernel.shared_bytes)
    counts = Counter(tensor_core=len(_MATRIX.findall(text)), total=len(_ANY.findall(text)))
    return _Facts((usage,), counts, kernel.warps)


def _lines(facts: _Facts) -> str:
    limited = f", occupancy {facts.occupancy[0]:.0%} limited by {facts.occupancy[1]}" if facts.occupancy else ""
    mix = f", {facts.counts['tensor_core']} matrix instructions of {facts.counts['total']}" if facts.counts else ""
    return "".join(
        f"Function {usage.name}: {usage.registers} registers, {usage.local_bytes} bytes of local memory a thread, "
        f"{usage.shared_bytes} bytes of shared memory, {facts.warps} warps{mix}{limited}\n"
        for usage in facts.usages
    )
