"""Several counters of the judge's kernels, for one wait for the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evaluators.cuda.device import Gpu

WORD = 8


def counts(gpu: Gpu, name: str, work: int, runs: Sequence[Sequence[int]]) -> npt.NDArray[np.uint64]:
    """Run a kernel once for each of these arguments; what each run counted, as :meth:`Gpu.count` gives it.

    Args:
        gpu: the device.
        name: the kernel; its last argument is a 64-bit counter that starts at 0.
        work: over about how many items each runs.
        runs: the arguments of each but for the counter.
    """
    found = np.zeros(len(runs), np.uint64)
    if len(runs):
        counters = gpu.room("counters", found.nbytes)
        gpu.clear(counters, found.nbytes)
        for index, arguments in enumerate(runs):
            gpu.launch(name, work, *arguments, counters + WORD * index)
        gpu.download(found, counters)
    return found
