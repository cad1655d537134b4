"""The least time a workload could take on a GPU: traffic over measured bandwidth, operations over the physical peak.

Bandwidth is measured with our own kernels in the judge's context, reading alone and copying, whichever is better. The
peak is the multiprocessors' widest issue at the highest clock: no program can pass it, so it convicts nobody honest.
"""

from __future__ import annotations

from evaluators.ceilings import Ceilings
from evaluators.cuda.device import Gpu
from evaluators.task import Task

SIZE = 1 << 30
ROUNDS = 10
FP32_PER_CLOCK = 256
"""A multiplication and an addition in each of 128 lanes of a multiprocessor."""
MATRIX_PER_CLOCK = {"sm_80": 2048, "sm_90": 4096, "sm_100": 8192}
"""Dense operations of a multiprocessor's matrix units in 16-bit floats (vendor's architecture white papers)."""
NARROW = {"fp8_e4m3": 2, "fp8_e5m2": 2, "i8": 2, "bf16": 1, "fp16": 1}


def measure_device_ceilings(gpu: Gpu, task: Task) -> Ceilings:
    """A tenth of a second on an idle device."""
    source, target = gpu.driver.allocate(SIZE), gpu.driver.allocate(SIZE)
    try:
        count = SIZE // 16
        read_ms = min(_time(gpu, "read_sum", count, source, target, count) for _ in range(ROUNDS))
        copy_ms = min(_time(gpu, "copy", count, source, target, count) for _ in range(ROUNDS))
    finally:
        gpu.driver.free(source)
        gpu.driver.free(target)
    bandwidth = max(SIZE / read_ms, 2 * SIZE / copy_ms) * 1e3
    return Ceilings(bandwidth, operations_per_clock(gpu.arch, task) * gpu.multiprocessors * gpu.clock_hz)


def operations_per_clock(arch: str, task: Task) -> int:
    """Of one multiprocessor, in the least precise type the task allows inside."""
    narrow = max((NARROW.get(dtype, 0) for dtype in task.allowed_precision), default=0)
    return narrow * MATRIX_PER_CLOCK.get(arch, max(MATRIX_PER_CLOCK.values())) if narrow else FP32_PER_CLOCK


def _time(gpu: Gpu, name: str, work: int, *arguments: int) -> float:
    gpu.start_clock()
    gpu.launch(name, work, *arguments)
    return gpu.stop_clock()
