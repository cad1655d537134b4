"""One NVIDIA GPU as a platform of the kernel judge."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from evaluators.arena import Arena
from evaluators.build import Builds, BuiltProgram, build_exchange
from evaluators.calibration import Bench, WorkloadCalibration
from evaluators.cascade import Case
from evaluators.ceilings import Ceilings
from evaluators.cuda.arena import CudaArena, pool_bytes
from evaluators.cuda.attesting import Attestor
from evaluators.cuda.ceilings import measure_device_ceilings
from evaluators.cuda.device import Gpu
from evaluators.cuda.health import SUSPECT, Health, health_events
from evaluators.cuda.inspection import Example, Tools, ToolUnavailable
from evaluators.cuda.ncu import CALLS, COMMAND, parse
from evaluators.cuda.plan import ROUND_S, device_plan
from evaluators.cuda.profiling import with_attested, with_ncu, without
from evaluators.cuda.sanitizing import Sanitation, Sanitizing
from evaluators.evaluation import Attestation
from evaluators.exchange import Exchange
from evaluators.failure import CandidateFailure
from evaluators.layout import Layout
from evaluators.plan import RoundPlan
from evaluators.profile import Profile
from evaluators.task import Task, Workload
from evaluators.zygote.client import Zygote


class CudaPlatform:
    """Buffers, rounds and floors on one GPU."""

    makes_ahead = True

    def __init__(
        self,
        gpu: Gpu,
        zygote: Zygote,
        scratch: Path,
        builds: Builds,
        cores: frozenset[int],
        *,
        rounds_core: int | None,
    ) -> None:
        """``cores`` are all that there are; rounds are played on one that compilers leave alone, if there is one."""
        self.builds_apart, self._rounds_core = rounds_core is not None, rounds_core
        self._builds, self._cores = builds, cores
        self._exchange: Exchange | None = None
        self.gpu, self._zygote, self._scratch = gpu, zygote, scratch
        self.cache_bytes = gpu.l2_bytes
        self.can_sample = False
        self.workers = len(os.sched_getaffinity(0))
        self._rng = np.random.default_rng(secrets.randbits(128))
        self._health = Health(gpu, health_events(gpu), gpu.driver.uuid())
        self._attestor: Attestor | None = None
        self._tools = Tools(zygote, scratch)
        beside = replace(self._tools, cpus=builds.cpus, nice=builds.nice)
        self._sanitizing = Sanitizing(beside, apart=self.builds_apart)

    def arena(self, task: Task, layouts: Iterable[Layout]) -> CudaArena:
        """See :class:`evaluators.platform.Platform`."""
        if self._exchange is None:
            native = build_exchange(self._builds, task, self._cores)
            self._exchange = replace(native, spins=False)
        return CudaArena(self.gpu, self._zygote, self._scratch, task, layouts, self._exchange, self._rounds_core)

    def plan(self, task: Task, workload: Workload) -> RoundPlan:
        """See :class:`evaluators.platform.Platform`. The fastest call that still gets more slots is taken."""
        room = pool_bytes(self.gpu.memory_bytes, task, workload)
        return device_plan(task, workload, self.cache_bytes, room, ROUND_S / 1e4, self._rng)

    def measure_ceilings(self, task: Task) -> Ceilings:
        """See :class:`evaluators.platform.Platform`."""
        return measure_device_ceilings(self.gpu, task)

    def attest(
        self, bench: Bench, arena: Arena, case: Case, calibrations: Mapping[str, WorkloadCalibration]
    ) -> Attestation | None:
        """See :class:`evaluators.platform.Platform`."""
        assert isinstance(arena, CudaArena)
        if self._attestor is None:
            self._attestor = Attestor.make(self._scratch)
        return self._attestor.attest(bench, arena, case, calibrations)

    def get_ready(self, bench: Bench) -> None:
        """See :class:`evaluators.platform.Platform`."""
        self._sanitizing.get_ready(bench)

    def inspect(self, bench: Bench, program: BuiltProgram) -> Sanitation:
        """See :class:`evaluators.platform.Platform`."""
        return self._sanitizing.begin(bench, program)

    def observe(
        self, profile: Profile, bench: Bench, arena: Arena, case: Case, calibration: WorkloadCalibration
    ) -> Profile:
        """See :class:`evaluators.platform.Platform`."""
        workload = calibration.plan.workload
        attested = self.attest(bench, arena, case, {workload.name: calibration})
        if attested is not None and attested.workloads:
            profile = with_attested(profile, attested.workloads[0], bench.ceilings.bytes_per_s)
        if attested is not None and attested.missing:
            profile = without(profile, "the device's counters", attested.missing)
        inputs = bench.checks.case(workload, bench.reference.families[0]).inputs
        try:
            report = self._tools.run(COMMAND, case.program, bench.task, [Example(workload, inputs)], CALLS)
            return with_ncu(profile, parse(report))
        except ToolUnavailable as why:
            return without(profile, "ncu", str(why))

    def close(self) -> None:
        """End what was started for it."""
        if self._attestor is not None:
            self._attestor.close()

    def after_failure(self, failure: CandidateFailure) -> None:
        """See :class:`evaluators.platform.Platform`."""
        if failure.status in SUSPECT:
            said = str(self._health.after_failure())
            failure.detail = f"{failure.detail}\n{said}" if said and failure.detail else failure.detail or said
