"""What the judge asks of the zygote, and what it learns of a child's end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

from evaluators.sandbox.limits import ChildLimits, Role


@dataclass(frozen=True)
class SpawnRequest:
    """One child: what runs in it, what it sees, what it may use."""

    role: Role
    entry: str
    """``package.module:function``, called as ``function(payload, fds)`` once the sandbox is closed. The module must be
    one that the zygote preloaded: its source is not visible from inside the sandbox."""
    limits: ChildLimits
    payload: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able. Reaches the child in a sealed memory file; the zygote never reads it. Put no secret in it."""
    fds: Mapping[str, int] = field(default_factory=dict)
    """Name -> descriptor of the judge's. The child gets the same names with its own numbers, and no other descriptor.
    A passed socket must be of type SOCK_STREAM or SOCK_SEQPACKET."""
    readable: tuple[Path, ...] = ()
    """Files and folders under the zygote's scratch folder that the child may read, beyond the base view."""
    writable: tuple[Path, ...] = ()
    """Folders under the scratch folder that a builder may change; runners: none. They become the child's user's."""
    cpus: frozenset[int] | None = None
    """The processors it is bound to, for good; ``None``: all of the judge's."""
    nice: int = 0
    """How far it gives way to others, 0 to 19, for good."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the base: PATH, LANG, HOME and, with a writable folder, TMPDIR."""
    gpu: bool = False
    """Whether it may use the GPU whose device nodes the zygote was given, and see a ``/proc`` of its own, which the
    driver wants."""
    inspected: bool = False
    """Whether it runs under a profiler or a sanitizer: for builders with a GPU; see ``docs/sandbox.md``."""
    observed: bool = False
    """Whether the judge may look at where it is, for a profile, also where it is an ordinary user."""
    python_packages: tuple[str, ...] = ()
    """Importable beside the standard library: top-level names in site-packages."""


@dataclass(frozen=True)
class ExitStatus:
    """How a child ended, as the kernel told the zygote. Exactly one of ``code`` and ``signal`` is set."""

    code: int | None
    signal: int | None
    cpu_s: float
    """Processor seconds of the child and of its own children that it waited for."""
    max_rss_bytes: int
    out_of_memory: bool = False
    """The kernel killed something in the child's memory cgroup; always False without that layer."""

    @property
    def signal_name(self) -> str | None:
        """For instance ``SIGSEGV``; ``None`` where it ended by itself."""
        if self.signal is None:
            return None
        try:
            return Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"

    def __str__(self) -> str:
        return f"exit code {self.code}" if self.signal is None else str(self.signal_name)
