"""What differs between devices for the kernel judge: how buffers, rounds and floors are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from evaluators.arena import Arena
from evaluators.build import Builds, build_exchange
from evaluators.ceilings import Ceilings, measure_ceilings
from evaluators.layout import Layout
from evaluators.plan import RoundPlan, round_plan
from evaluators.task import Task, Workload
from evaluators.zygote.client import Zygote


class Platform(Protocol):
    """One device."""

    cache_bytes: int
    """Its last-level cache."""
    makes_ahead: bool
    """Whether everything that rounds need is made before the first candidate. A device that waits for the host between
    rounds lowers its clock, and the round that follows is slow; a processor does not wait, and starts sooner."""
    builds_apart: bool
    """Whether compilers have cores of their own, so that programs may be built while others are timed."""

    @property
    def workers(self) -> int:
        """Threads of the judge's own that may compute before the first candidate."""
        ...

    def arena(self, task: Task, layouts: Iterable[Layout]) -> Arena:
        """Buffers large enough for these layouts, and runners on them."""
        ...

    def plan(self, task: Task, workload: Workload) -> RoundPlan:
        """The largest rounds a workload may be given here."""
        ...

    def measure_ceilings(self, task: Task) -> Ceilings:
        """The best the device is seen to do with what the task allows."""
        ...


@dataclass
class CpuPlatform:
    """This machine's processors."""

    zygote: Zygote
    builds: Builds
    cpus: frozenset[int]
    cache_bytes: int
    makes_ahead: bool = False
    builds_apart: bool = False

    @property
    def workers(self) -> int:
        """See :class:`Platform`."""
        return len(self.cpus)

    def arena(self, task: Task, layouts: Iterable[Layout]) -> Arena:
        """See :class:`Platform`."""
        exchange = build_exchange(self.builds, task, self.cpus)
        return Arena(self.zygote, task, layouts, self.cpus, exchange)

    def plan(self, task: Task, workload: Workload) -> RoundPlan:
        """See :class:`Platform`."""
        return round_plan(task, workload, self.cache_bytes)

    def measure_ceilings(self, task: Task) -> Ceilings:
        """See :class:`Platform`."""
        return measure_ceilings(self.zygote, self.builds, task.threads, self.cpus, self.cache_bytes)
