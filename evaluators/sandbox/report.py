"""Which layers of the sandbox are active on this host, and what level they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

SandboxLevel = Literal["full", "reduced", "none"]


class LayerName(StrEnum):
    """The layers, in the order in which a child passes through them."""

    USER_NAMESPACE = "user namespace"
    PID_NAMESPACE = "pid namespace"
    NETWORK_NAMESPACE = "network namespace"
    IPC_NAMESPACE = "ipc namespace"
    MOUNT_NAMESPACE = "mount namespace"
    MEMORY_CGROUP = "memory cgroup"
    PIDS_CGROUP = "pids cgroup"
    RESOURCE_LIMITS = "resource limits"
    NO_NEW_PRIVILEGES = "no new privileges"
    OTHER_USER = "other user"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"


_ISOLATION = frozenset(
    {
        LayerName.PID_NAMESPACE,
        LayerName.NETWORK_NAMESPACE,
        LayerName.IPC_NAMESPACE,
        LayerName.MOUNT_NAMESPACE,
        LayerName.LANDLOCK,
    }
)
_CORE = frozenset({LayerName.SECCOMP, LayerName.NO_NEW_PRIVILEGES, LayerName.RESOURCE_LIMITS})

INSPECTION_NEEDS = (LayerName.NETWORK_NAMESPACE, LayerName.MOUNT_NAMESPACE)
"""A profiler's box may make and connect sockets: only where none but its own are in reach."""


@dataclass(frozen=True)
class Layer:
    """One layer as found on this host."""

    name: LayerName
    active: bool
    detail: str = ""
    """Where active, what exactly (for instance ``ABI 7``); where not, why not."""


@dataclass(frozen=True)
class SandboxReport:
    """Every layer once, in the order of :class:`LayerName`."""

    layers: tuple[Layer, ...]

    @classmethod
    def from_json(cls, rows: list[list[Any]]) -> Self:
        """The report that :meth:`to_json` wrote."""
        return cls(tuple(Layer(LayerName(name), active, detail) for name, active, detail in rows))

    def to_json(self) -> list[list[Any]]:
        """Rows of name, active, detail."""
        return [[layer.name.value, layer.active, layer.detail] for layer in self.layers]

    def active(self, name: LayerName) -> bool:
        """Whether the layer is in force."""
        return any(layer.active for layer in self.layers if layer.name is name)

    @property
    def level(self) -> SandboxLevel:
        """The level these layers add up to.

        ``full``: pid, network, ipc and mount namespaces, Landlock, seccomp, no new privileges and resource limits.
        ``reduced``: seccomp, no new privileges and resource limits, with Landlock or another user.
        ``none``: less than that.
        """
        active = {layer.name for layer in self.layers if layer.active}
        if active >= _CORE | _ISOLATION:
            return "full"
        if active >= _CORE and active & {LayerName.LANDLOCK, LayerName.OTHER_USER}:
            return "reduced"
        return "none"

    def missing(self) -> tuple[Layer, ...]:
        """The layers that are not in force, with the reason in ``detail``."""
        return tuple(layer for layer in self.layers if not layer.active)


def meets(level: SandboxLevel, minimum: SandboxLevel) -> bool:
    """Whether ``level`` is at least ``minimum``."""
    order: tuple[SandboxLevel, ...] = ("none", "reduced", "full")
    return order.index(level) >= order.index(minimum)
