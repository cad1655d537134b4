"""What differs between devices for the kernel judge: how buffers, rounds and floors are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evaluators.arena import Arena
from evaluators.build import Builds, BuiltProgram, build_exchange
from evaluators.ceilings import Ceilings, measure_ceilings
from evaluators.layout import Layout
from evaluators.plan import RoundPlan, round_plan
from evaluators.task import Task, Workload
from evaluators.zygote.client import Zygote

if TYPE_CHECKING:
    from evaluators.calibration import Bench, WorkloadCalibration
    from evaluators.cascade import Case
    from evaluators.evaluation import Attestation
    from evaluators.failure import CandidateFailure
    from evaluators.profile import Profile


class Inspection(Protocol):
    """What tools find in one program while it is confirmed. They may be on their way from its beginning on."""

    def memory(self) -> None:
        """Accesses beyond the program's buffers, on small shapes.

        Raises:
            CandidateFailure: there are some.
        """
        ...

    def races(self, case: Case) -> None:
        """Races, the last that is looked for; what was found, or why nothing, is added to the attestation."""
        ...

    def close(self) -> None:
        """End what still runs."""
        ...


class NoInspection:
    """Where guard zones are what there is."""

    def memory(self) -> None:
        """See :class:`Inspection`."""

    def races(self, case: Case) -> None:
        """See :class:`Inspection`."""

    def close(self) -> None:
        """See :class:`Inspection`."""


class Platform(Protocol):
    """One device."""

    cache_bytes: int
    """Its last-level cache."""
    makes_ahead: bool
    """Whether everything that rounds need is made before the first candidate. A device that waits for the host between
    rounds lowers its clock, and the round that follows is slow; a processor does not wait, and starts sooner."""
    builds_apart: bool
    """Whether compilers have cores of their own, so that programs may be built while others are timed."""
    can_sample: bool
    """Whether programs run on processors, where they can be stopped and looked at."""

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

    def attest(
        self, bench: Bench, arena: Arena, case: Case, calibrations: Mapping[str, WorkloadCalibration]
    ) -> Attestation | None:
        """What a profiler says of a program's rounds; ``None`` where the rounds' own protocol says it all.

        Raises:
            CandidateFailure: they are not what they seem.
        """
        ...

    def get_ready(self, bench: Bench) -> None:
        """Make what an inspection needs, while the device may be somebody else's."""
        ...

    def inspect(self, bench: Bench, program: BuiltProgram) -> Inspection:
        """Begin to look into a program that is about to be confirmed; to be closed before the device is given back."""
        ...

    def observe(
        self, profile: Profile, bench: Bench, arena: Arena, case: Case, calibration: WorkloadCalibration
    ) -> Profile:
        """Add to a profile what the device's own counters say."""
        ...

    def after_failure(self, failure: CandidateFailure) -> None:
        """Look at the device once a failed program is gone; add to the failure what the device says of it.

        Raises:
            JudgeError: it is the device that failed.
        """
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
    can_sample: bool = True

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

    def attest(
        self, bench: Bench, arena: Arena, case: Case, calibrations: Mapping[str, WorkloadCalibration]
    ) -> Attestation | None:
        """See :class:`Platform`. Each call is asked for and answered by itself: nothing is left to attest."""

    def get_ready(self, bench: Bench) -> None:
        """See :class:`Platform`."""
        del bench

    def inspect(self, bench: Bench, program: BuiltProgram) -> NoInspection:
        """See :class:`Platform`."""
        del bench, program
        return NoInspection()

    def observe(
        self, profile: Profile, bench: Bench, arena: Arena, case: Case, calibration: WorkloadCalibration
    ) -> Profile:
        """See :class:`Platform`. Sampling says it all."""
        del bench, arena, case, calibration
        return profile

    def after_failure(self, failure: CandidateFailure) -> None:
        """See :class:`Platform`. The kernel keeps programs apart."""
