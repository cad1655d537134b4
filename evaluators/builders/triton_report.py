"""What compiled Triton kernels use, as measures and as texts, read from the files that a build left.

Runs in a builder's process that has not imported the program: the files are data from an enemy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from evaluators.builders.base import BuildRefused
from evaluators.builders.resources import Usage, count_instructions, dump, occupancy, parse_usage, summary
from evaluators.builders.sass import disassemble

RESOURCES, SASS = "resources.txt", "kernels.sass"
DISASSEMBLED = 8
"""Kernels whose code is disassembled, the longest; of an autotuner's dozens they say enough."""
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s+(\d{1,9})\b"),
    "spills": re.compile(r"\.vgpr_spill_count:\s+(\d{1,9})\b"),
}
_MATRIX = re.compile(r"^\s+v_s?mfma", re.MULTILINE)
_ANY = re.compile(r"^\s+[vs]_\w+", re.MULTILINE)
_NAME = re.compile(r"[\w$.@]+")
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
    kernel: _Kernel
    usages: tuple[Usage, ...]
    """Of its functions; none where there is no tool that reads them."""
    mix: Counter[str] | None
    """Its instructions, where they were read."""

    def occupancy(self, arch: str) -> tuple[float, str] | None:
        """Share of a multiprocessor's warps, and what limits it, where that is known."""
        registers = max((usage.registers for usage in self.usages), default=0)
        return occupancy(arch, registers, self.kernel.shared_bytes, self.kernel.warps) if registers else None


def write(work: Path, built: Path, order: Mapping[str, Any]) -> dict[str, float]:
    """Write the texts; returns the measures.

    Raises:
        BuildRefused: a kernel cannot be read.
    """
    kernels = _kernels(built)
    if not kernels:
        raise BuildRefused("error: the build left no kernel")
    amd = kernels[0].path.suffix == ".amdgcn"
    facts = [_amd_facts(kernel) for kernel in kernels] if amd else _nvidia_facts(work, kernels, order)
    if facts[0].usages:
        (work / RESOURCES).write_text("".join(_lines(one, order["arch"]) for one in facts))
    mixes = [one.mix for one in facts if one.mix is not None]
    report = summary((usage for one in facts for usage in one.usages), sum(mixes, Counter()) if mixes else None)
    shares = [share[0] for one in facts if (share := one.occupancy(order["arch"]))]
    return {**report, "kernels": float(len(facts)), **({"occupancy": min(shares)} if shares else {})}


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


def _nvidia_facts(work: Path, kernels: Sequence[_Kernel], order: Mapping[str, Any]) -> list[_Facts]:
    longest = [kernel.code for kernel in kernels[:DISASSEMBLED]]
    texts = disassemble(order["nvdisasm"], order["arch"], work, longest)
    if texts is not None:
        (work / SASS).write_text("".join(texts))
    mixes = [count_instructions(text.splitlines()) for text in texts or ()]
    return [_Facts(kernel, _usages(kernel, order), mix) for kernel, mix in zip_longest(kernels, mixes)]


def _usages(kernel: _Kernel, order: Mapping[str, Any]) -> tuple[Usage, ...]:
    if order["cuobjdump"] is None:
        return ()
    found = parse_usage(dump([order["cuobjdump"], "--dump-resource-usage"], kernel.path))
    if not found:
        raise BuildRefused(f"error: {kernel.path.name}: cuobjdump finds no kernel in it")
    if not all(_NAME.fullmatch(usage.name) for usage in found):
        raise BuildRefused(f"error: {kernel.path.name}: a kernel's name holds other characters than a name's")
    return tuple(replace(usage, shared_bytes=kernel.shared_bytes) for usage in found)


def _amd_facts(kernel: _Kernel) -> _Facts:
    """From the assembly that was left beside the binary: such programs are compiled and never timed."""
    text = kernel.code.decode(errors="replace")
    numbers = {name: max(map(int, pattern.findall(text)), default=0) for name, pattern in _AMD.items()}
    usage = Usage(kernel.path.stem, numbers["registers"], 4 * numbers["spills"], kernel.shared_bytes)
    mix = Counter(tensor_core=len(_MATRIX.findall(text)), total=len(_ANY.findall(text)))
    return _Facts(kernel, (usage,), mix)


def _lines(facts: _Facts, arch: str) -> str:
    share = facts.occupancy(arch)
    limited = f", occupancy {share[0]:.0%} limited by {share[1]}" if share else ""
    mix = f", {facts.mix['tensor_core']} matrix instructions of {facts.mix['total']}" if facts.mix else ""
    return "".join(
        f"Function {usage.name}: {usage.registers} registers, {usage.local_bytes} bytes of local memory a thread, "
        f"{usage.shared_bytes} bytes of shared memory, {facts.kernel.warps} warps{mix}{limited}\n"
        for usage in facts.usages
    )
