"""What is known of a GPU's baselines saves recordings, and neither checks nor rounds that count."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.baseline_cache import BaselineCache, workshop_of
from evaluators.calibration import Bench, baseline_side, calibrate_all
from evaluators.check_set import CheckSet
from evaluators.cuda import device
from evaluators.cuda.device import Gpu
from evaluators.cuda.plan import ROUND_S, device_plan
from evaluators.errors import TaskError
from evaluators.reference import load_reference
from evaluators.surprise import Surprises
from evaluators.task_loading import load_task
from evaluators.tolerance import load_lock
from tests.evaluators.cuda.host_arena import HostArena, MemoryDriver
from tests.evaluators.cuda.test_inouts_on_the_host import SHORT, WORKLOAD, honest, leaves_the_last_row

CACHE_BYTES = 1 << 16


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(device, "compile_cubin", lambda *arguments: b"")
    yield Gpu(MemoryDriver(tmp_path_factory.mktemp("kernels")))
    patch.undo()


@dataclass
class Program:
    """A baseline: a function, and how often its rounds were recorded and its calls made."""

    call: object
    source_hash: str
    language: str = "torch"

    def __post_init__(self):
        self.recorded, self.rounds = set(), 0

    def __call__(self, runner, slot, views):
        if runner.layout.sequences:
            self.recorded.add(runner.layout.sequences)
            self.rounds += slot == runner.called[-1] and len(runner.called) == len(runner.layout.sequences[0])
        self.call(runner, slot, views)


class Table:
    def __init__(self, gpu, folder, cache, **calls):
        reference = replace(load_reference(SHORT), task=SHORT)
        rng = np.random.default_rng(1)
        checks = CheckSet(reference, folder, rng)
        largest = device_plan(SHORT, WORKLOAD, CACHE_BYTES, 1 << 23, ROUND_S / 1e4, rng)
        self.arena = HostArena(gpu, SHORT, [largest.layout])
        self.arena._scratch = folder
        self.arena.plan = lambda workload, cache_bytes, call_s: device_plan(
            SHORT, workload, cache_bytes, 1 << 23, call_s, rng
        )
        builds = SimpleNamespace(build=lambda *arguments: Program(lambda *_: None, "0"))
        self.baselines = {name: Program(call, name * 20) for name, call in calls.items()}
        self.bench = Bench(
            task=SHORT,
            reference=reference,
            lock=load_lock(load_task(SHORT.folder)),
            builds=builds,
            cache_bytes=CACHE_BYTES,
            ceilings=SimpleNamespace(floor_us=lambda *arguments, cold: 0.0),
            checks=checks,
            surprises=Surprises(reference, checks),
            baselines=self.baselines,
            cache=cache,
        )

    def calibrate(self):
        return calibrate_all(self.bench, self.arena, [WORKLOAD], ["cuda"])[WORKLOAD.name]


@pytest.fixture
def laid(gpu, tmp_path):
    opened = []

    def lay(cache, **calls):
        opened.append(Table(gpu, tmp_path, cache, **calls))
        return opened[-1]

    yield lay
    for table in opened:
        table.arena.close()


def known(tmp_path, **times):
    return BaselineCache(file=tmp_path / "x.kept", baseline_us={WORKLOAD.name: times}, since="yesterday")


def test_with_known_times_rounds_are_recorded_once_and_measured_all_the_same(laid, tmp_path):
    first = laid(BaselineCache(), eager=honest, compiled=honest)
    found = first.calibrate()
    later = laid(known(tmp_path, **found.baseline_us), eager=honest, compiled=honest)
    again = later.calibrate()
    assert list(again.baseline_us) == ["eager", "compiled"]
    assert again.contenders == {"eager", "compiled"}
    for name in ("eager", "compiled"):
        assert len(first.baselines[name].recorded) == 2
        assert len(later.baselines[name].recorded) == 1
        assert first.baselines[name].rounds == later.baselines[name].rounds  # this runner records at every preparation
    side = baseline_side(later.bench, later.arena, again, "eager")
    assert side.session.layout == again.plan.layout


@pytest.mark.parametrize("times", [{"eager": 1e-6, "compiled": 1e8}, {"eager": 1e8}, {"another": 1.0}, {}])
def test_whatever_is_known_both_are_measured(laid, tmp_path, times):
    table = laid(known(tmp_path, **times), eager=honest, compiled=honest)
    found = table.calibrate()
    assert found.contenders == set(found.baseline_us) == {"eager", "compiled"}
    assert all(0 < us < 1e5 for us in found.baseline_us.values())


@pytest.mark.parametrize("wrong", ["eager", "compiled"])
def test_a_wrong_baseline_is_found_although_its_time_is_known(laid, tmp_path, wrong):
    calls = {"eager": honest, "compiled": honest, wrong: leaves_the_last_row}
    table = laid(known(tmp_path, eager=1.0, compiled=1.0), **calls)
    with pytest.raises(TaskError, match=f"baseline {wrong} fails"):
        table.calibrate()
    assert not table.bench.cache.since


def test_a_baseline_that_is_wrong_by_what_was_kept_compiles_again(laid, tmp_path):
    folder = workshop_of(tmp_path, "compiled" * 20)
    folder.mkdir()
    (folder / "kernel").write_text("damaged")

    def compiled(runner, slot, views):
        damaged = (folder / "kernel").exists()
        (leaves_the_last_row if damaged else honest)(runner, slot, views)

    cache = known(tmp_path, eager=1.0, compiled=1.0)
    cache.workshops = {"compiled" * 20: folder}
    table = laid(cache, eager=honest, compiled=compiled)
    assert table.calibrate().contenders == {"eager", "compiled"}
    assert not cache.since
