"""What an earlier judge measured plans rounds, and is never anybody's time: baselines are checked and measured anew."""

from __future__ import annotations

import shutil

import pytest

from evaluators import gpu_judge
from evaluators.baseline_cache import BaselineCache
from evaluators.build import Builds
from evaluators.cache_entry import read_entry
from evaluators.cache_folder import VARIABLE
from evaluators.device import find_cpu
from evaluators.device_lock import DeviceLock
from evaluators.errors import TaskError
from evaluators.evaluation import Environment, Status
from evaluators.judge import _ready, open_judge, preload_for
from evaluators.platform import CpuPlatform
from evaluators.scratch import scratch_folder
from evaluators.task_loading import load_task
from evaluators.zygote.client import Zygote
from tests.evaluators.judge.conftest import DATA, DOUBLE_CPP

SLOW = """
    for (int turn = 0; turn < 200; ++turn) { asm volatile("" ::: "memory"); for (long i = 0; i < N; ++i) out[i] = 0; }
"""


@pytest.fixture(scope="module")
def task_folder(tmp_path_factory):
    """The task ``double`` with a second baseline that is far slower."""
    folder = tmp_path_factory.mktemp("tasks") / "double"
    shutil.copytree(DATA / "double", folder)
    plain = (folder / "plain.cpp").read_text()
    (folder / "slow.cpp").write_text(plain.replace("{", "{" + SLOW, 1))
    text = (folder / "task.toml").read_text()
    both = 'language = "cpp" }, { name = "slow", file = "slow.cpp", language = "cpp" }]'
    (folder / "task.toml").write_text(text.replace('language = "cpp" }]', both))
    return folder


def calibrated(folder, known):
    with open_judge(load_task(folder), sandbox="reduced", lanes=1) as (judge, _):
        if known:
            file = folder.parent / "known.kept"
            judge.bench.cache = BaselineCache(file=file, baseline_us={"large": known}, since="yesterday")
        judge.calibrate()
        return judge.calibrations["large"], judge.evaluate(DOUBLE_CPP, "cpp")


@pytest.fixture(scope="module")
def first(task_folder):
    """What a judge finds that knows nothing."""
    return calibrated(task_folder, {})[0]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(None, id="as it was"),
        pytest.param({"plain": 1e8, "slow": 1e8}, id="far too large"),
        pytest.param({"plain": 1e8, "slow": 1e-3}, id="the other was the strongest"),
        pytest.param({"plain": 1e-3}, id="one of them"),
    ],
)
def test_whatever_was_known_what_is_found_is_the_same(task_folder, first, known):
    found, evaluation = calibrated(task_folder, first.baseline_us if known is None else known)
    assert list(found.baseline_us) == list(first.baseline_us) == ["plain", "slow"]
    assert found.strongest == first.strongest == "plain"
    assert "plain" in found.contenders
    assert found.plan.calls > 1  # as there would be if they took as long as that
    for name, us in found.baseline_us.items():
        assert first.baseline_us[name] / 100 < us < first.baseline_us[name] * 100
    assert evaluation.workloads[0].workload == "large"


@pytest.mark.parametrize("wrong", ["plain.cpp", "slow.cpp"])
def test_a_baseline_that_is_wrong_now_is_found_although_it_was_right(task_folder, first, tmp_path, wrong):
    folder = tmp_path / "double"
    shutil.copytree(task_folder, folder)
    source = (folder / wrong).read_text()
    (folder / wrong).write_text(source[: source.rindex("}")] + "\n    out[N / 2] += 1;\n}\n")
    with pytest.raises(TaskError, match=f"baseline {wrong.removesuffix('.cpp')} fails on large"):
        calibrated(folder, first.baseline_us)


def as_on_a_device(monkeypatch, driver="580.82"):
    """A judge that is put together as one on a GPU is, with processors for its device."""
    host = dict.fromkeys(("gpu_uuid", "cuda_driver", "arch", "python", "numpy", "torch", "triton"), "1")
    environment = Environment(device_class="sm_90:NVIDIA H200", host=host, sandbox="reduced")
    monkeypatch.setattr(gpu_judge, "driver_version", lambda: driver)
    task, cpu = load_task(DATA / "double"), find_cpu()
    cores = frozenset(cpu.cores)
    with scratch_folder() as scratch, Zygote(minimum="reduced", scratch=scratch, preload=preload_for(task)) as zygote:
        builds = Builds(zygote, scratch, cores)
        platform = CpuPlatform(zygote, builds, frozenset(cpu.cores[-1:]), cpu.last_level_cache_bytes)
        judge = gpu_judge._on_device(task, platform, DeviceLock("cpu"), builds, environment, scratch, cores)
        try:
            judge.calibrate()
            ready = _ready(judge, task, environment)
            return ready, judge.bench.cache, judge.evaluate(DOUBLE_CPP, "cpp").status
        finally:
            judge.close()


def test_a_judge_on_a_device_says_since_when_its_baselines_are_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    ready, cache, status = as_on_a_device(monkeypatch)
    assert (ready["baselines_since"], status) == ("", Status.PASSED)
    assert read_entry(cache.file).baseline_us == ready["baseline_us"]
    again, cache, status = as_on_a_device(monkeypatch)
    assert (again["baselines_since"], status) == (cache.since, Status.PASSED)
    assert cache.since
    assert cache.baseline_us == ready["baseline_us"]
    assert again["baseline_us"] != ready["baseline_us"]  # measured anew
    ready, _, _ = as_on_a_device(monkeypatch, driver=None)
    assert ready["baselines_since"] == ""
