"""A time that the device cannot do is cheating, unless a second process and ceilings measured again bear it out."""

import gc
import os
from contextlib import contextmanager
from dataclasses import replace

from evaluators import judge, looks
from evaluators.ceilings import Ceilings
from evaluators.device import find_cpu
from evaluators.evaluation import Status
from evaluators.judge import open_judge
from evaluators.platform import CpuPlatform
from evaluators.task_loading import load_task
from tests.evaluators.judge.conftest import DATA, DOUBLE_CPP

SLOW = Ceilings(bytes_per_s=1.0, operations_per_s=1.0)
"""A device on which every call is faster than can be."""
FAST = Ceilings(bytes_per_s=1e18, operations_per_s=1e21)


@contextmanager
def judge_with(monkeypatch, *seen):
    """A judge that sees these ceilings, one after the other; the last for good."""
    left = list(seen)
    monkeypatch.setattr(judge, "find_cpu", lambda: replace(find_cpu(), last_level_cache_bytes=1 << 20))
    monkeypatch.setattr(CpuPlatform, "measure_ceilings", lambda *_: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(looks, "MOST_ROUNDS", looks.FIRST_LOOK)
    with open_judge(load_task(DATA / "double"), sandbox="full", lanes=1) as (opened, _):
        opened.calibrate()
        yield opened


def test_a_time_below_the_floor_that_nothing_explains_is_cheating(monkeypatch):
    with judge_with(monkeypatch, SLOW) as opened:
        evaluation = opened.evaluate(DOUBLE_CPP, "cpp")
    assert evaluation.status is Status.CHEATING
    assert "below what the device can do" in evaluation.message
    assert evaluation.message.endswith("a second process with new keys did not explain it")
    assert evaluation.score is None


def test_a_closed_judge_leaves_no_descriptor_behind(monkeypatch):
    before = set(os.listdir("/proc/self/fd"))
    with judge_with(monkeypatch, FAST):
        pass
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before


def test_ceilings_that_were_measured_too_low_convict_nobody(monkeypatch):
    with judge_with(monkeypatch, SLOW, FAST) as opened:
        evaluation = opened.evaluate(DOUBLE_CPP, "cpp")
    assert evaluation.status is Status.PASSED, evaluation.message
