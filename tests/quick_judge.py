"""Judges that are quick: few rounds of few calls, nothing measured of the machine. For tests of verdicts alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from evaluators import duel, judge, kernel, looks
from evaluators.ceilings import Ceilings
from evaluators.device import find_cpu
from evaluators.judge import TaskJudge, open_judge
from evaluators.platform import CpuPlatform
from evaluators.task_loading import load_task

DATA = Path(__file__).parent / "data"
CACHE_BYTES = 1 << 20
"""What is taken for the last-level cache: rounds then need few calls."""
NO_FLOOR = Ceilings(bytes_per_s=1e18, operations_per_s=1e21)


@contextmanager
def quick_judges() -> Iterator[Callable[[str], TaskJudge]]:
    """Judges by the name of a folder under ``tests/data``, opened at the first use."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "find_cpu", lambda: replace(find_cpu(), last_level_cache_bytes=CACHE_BYTES))
        patch.setattr(CpuPlatform, "measure_ceilings", lambda self, task: NO_FLOOR)
        patch.setattr(kernel, "PATIENCE_S", ())  # nobody waits here for others to leave the machine
        for module in (looks, duel):
            patch.setattr(module, "MOST_ROUNDS", module.FIRST_LOOK)
        open_ones: dict[str, TaskJudge] = {}

        def quick_judge(name: str) -> TaskJudge:
            if name not in open_ones:
                opened, _ = stack.enter_context(open_judge(load_task(DATA / name), sandbox="full", lanes=1))
                opened.calibrate()
                open_ones[name] = opened
            return open_ones[name]

        yield quick_judge
