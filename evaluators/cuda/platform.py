"""One NVIDIA GPU as a platform of the kernel judge."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from evaluators.ceilings import Ceilings
from evaluators.cuda.arena import CudaArena
from evaluators.cuda.ceilings import measure_device_ceilings
from evaluators.cuda.device import Gpu
from evaluators.cuda.plan import POOL_SHARE, ROUND_S, device_plan
from evaluators.layout import Layout
from evaluators.plan import RoundPlan
from evaluators.task import Task, Workload
from evaluators.zygote.client import Zygote


class CudaPlatform:
    """Buffers, rounds and floors on one GPU."""

    makes_ahead = True

    def __init__(self, gpu: Gpu, zygote: Zygote, scratch: Path, *, builds_apart: bool) -> None:
        self.builds_apart = builds_apart
        self.gpu, self._zygote, self._scratch = gpu, zygote, scratch
        self.cache_bytes = gpu.l2_bytes
        self.workers = len(os.sched_getaffinity(0))
        self._rng = np.random.default_rng(secrets.randbits(128))

    def arena(self, task: Task, layouts: Iterable[Layout]) -> CudaArena:
        """See :class:`evaluators.platform.Platform`."""
        return CudaArena(self.gpu, self._zygote, self._scratch, task, layouts)

    def plan(self, task: Task, workload: Workload) -> RoundPlan:
        """See :class:`evaluators.platform.Platform`. The fastest call that still gets more slots is taken."""
        pool_bytes = self.gpu.memory_bytes // POOL_SHARE
        return device_plan(task, workload, self.cache_bytes, pool_bytes, ROUND_S / 1e4, self._rng)

    def measure_ceilings(self, task: Task) -> Ceilings:
        """See :class:`evaluators.platform.Platform`."""
        return measure_device_ceilings(self.gpu, task)
