"""What a compiled GPU kernel uses: registers, spills, shared memory, occupancy, matrix instructions."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_USAGE = re.compile(r"Function (\S+?):\s+REG:(\d{1,9}) STACK:(\d{1,9}) SHARED:(\d{1,9}) LOCAL:(\d{1,9})\b")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)")
TENSOR_CORE = frozenset({"HMMA", "HGMMA", "IMMA", "IGMMA", "BMMA", "BGMMA", "DMMA", "QMMA", "QGMMA", "OMMA"}) | {
    f"UTC{kind}MMA" for kind in ("H", "I", "Q", "O")
}
"""SASS mnemonics of matrix instructions, Volta to Blackwell (CUDA Binary Utilities, instruction set reference)."""
_LOCAL_MEMORY = ("LDL", "STL")
_WORDS_CAP = 500


@dataclass(frozen=True)
class Usage:
    """One kernel's static resources."""

    name: str
    registers: int
    local_bytes: int
    """Stack and local memory a thread: where spilled registers go."""
    shared_bytes: int


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor has to share out (CUDA C++ Programming Guide, technical specifications)."""

    registers: int
    warps: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int = 1024
    """Shared memory the system takes of each block."""


MULTIPROCESSORS = {
    "sm_80": Multiprocessor(65536, 64, 32, 164 << 10),
    "sm_90": Multiprocessor(65536, 64, 32, 228 << 10),
    "sm_100": Multiprocessor(65536, 64, 32, 228 << 10),
}


def occupancy(arch: str, registers: int, shared_bytes: int, warps: int) -> tuple[float, str] | None:
    """Share of a multiprocessor's warps that can be resident, and what limits it; ``None`` for an unknown device."""
    unit = MULTIPROCESSORS.get(arch)
    if unit is None:
        return None
    per_warp = -(-max(registers, 1) * 32 // 256) * 256
    shared = -(-(shared_bytes + unit.reserved_bytes) // 128) * 128
    blocks = {
        "registers": unit.registers // (per_warp * warps),
        "shared memory": unit.shared_bytes // shared,
        "warps": unit.warps // warps,
        "blocks": unit.blocks,
    }
    limiter = min(blocks, key=lambda name: blocks[name])
    return blocks[limiter] * warps / unit.warps, limiter


def find_tool(name: str) -> str | None:
    """A CUDA binary utility: on the path, beside nvcc, or inside Triton's package (which is not imported)."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    if found:
        return found
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / name
    return str(path) if path.is_file() else None


def dump(command: Sequence[str], binary: Path) -> str:
    """What a CUDA binary utility says of a file; empty where it fails."""
    done = subprocess.run([*command, str(binary)], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        sys.stderr.write(f"{Path(command[0]).name}: {done.stderr[:_WORDS_CAP]}\n")
        return ""
    return done.stdout


def parse_usage(text: str) -> list[Usage]:
    """The kernels in the output of ``cuobjdump --dump-resource-usage``."""
    return [
        Usage(name, int(registers), int(stack) + int(local), int(shared))
        for name, registers, stack, shared, local in _USAGE.findall(text)
    ]


def count_instructions(sass: Iterable[str]) -> Counter[str]:
    """Instructions of a disassembly: ``total``, ``tensor_core``, ``local_memory``."""
    counts: Counter[str] = Counter()
    for line in sass:
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        counts["total"] += 1
        if found[1] in TENSOR_CORE:
            counts["tensor_core"] += 1
        elif found[1] in _LOCAL_MEMORY:
            counts["local_memory"] += 1
    return counts


def summary(usages: Iterable[Usage], counts: Counter[str] | None) -> dict[str, float]:
    """Compiled facts as measures: the worst kernel's resources, and the instruction mix over all, where it is known."""
    usages = list(usages)
    resources = {
        "kernels": float(len(usages)),
        "registers": float(max((u.registers for u in usages), default=0)),
        "local_bytes": float(max((u.local_bytes for u in usages), default=0)),
        "shared_kib": max((u.shared_bytes for u in usages), default=0) / 1024,
    }
    if counts is None:
        return resources
    mix = {
        "instructions": float(counts["total"]),
        "tensor_core_instructions": float(counts["tensor_core"]),
        "tensor_core_share": counts["tensor_core"] / max(counts["total"], 1),
    }
    return resources | mix
