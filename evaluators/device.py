"""The CPU as a device: its class, its caches, its cores."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_FALLBACK_LLC_BYTES = 32 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "": 1}
_VECTORS = re.compile(r"sse4_2|avx\w*|fma|f16c|amx\w*|asimd\w*|sve\w*")
"""Of a processor's features: those that decide which vector instructions a program may use."""


@dataclass(frozen=True)
class Cpu:
    """What there is to run on."""

    model: str
    cores: tuple[int, ...]
    """Cores this process may use."""
    last_level_cache_bytes: int
    flags: str

    def device_class(self, threads: int) -> str:
        """The class a time belongs to, for instance ``cpu:AMD EPYC:2``."""
        return f"cpu:{self.model}:{threads}"

    @property
    def vectors(self) -> str:
        """The vector extensions it has, by the kernel's names; empty where it says none."""
        return " ".join(sorted(flag for flag in self.flags.split() if _VECTORS.fullmatch(flag)))


def find_cpu() -> Cpu:
    """Read the facts from ``/proc/cpuinfo`` and sysfs."""
    facts: dict[str, str] = {}
    for row in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = row.partition(":")
        facts.setdefault(key.strip(), value.strip())
    model = facts.get("model name") or platform.machine()
    flags = facts.get("flags") or facts.get("Features") or ""
    return Cpu(model, tuple(sorted(os.sched_getaffinity(0))), _last_level_cache_bytes(), flags)


def _last_level_cache_bytes() -> int:
    sizes = []
    for path in _CACHES.glob("index*/size"):
        match = re.fullmatch(r"(\d+)([KM]?)", path.read_text().strip())
        if match:
            sizes.append(int(match[1]) * _UNITS[match[2]])
    return max(sizes, default=_FALLBACK_LLC_BYTES)
