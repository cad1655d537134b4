"""A search that runs for days fills neither memory nor disk with what it has built."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from evaluators import build
from evaluators.build import Builds
from evaluators.builders.cpp import CppBuilder
from evaluators.builders.triton import TritonBuilder
from evaluators.device_account import DeviceNews
from evaluators.failure import CandidateFailure
from evaluators.task_loading import load_task
from evaluators.zygote.client import Zygote
from tests.quick_judge import DATA


@pytest.fixture(scope="module")
def task():
    return load_task(DATA / "double")


@pytest.fixture
def builds(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "KEPT_BUILDS", 2)
    with Zygote(
        minimum="reduced", scratch=tmp_path, preload=("evaluators.builder", "evaluators.builders.cpp")
    ) as opened:
        yield Builds(opened, tmp_path, None)


def program(builds, task, number):
    return builds.build(task, f'extern "C" void double_it() {{}} // {number}', "cpp", ("-O0",))


def test_what_nobody_uses_is_forgotten_and_what_is_in_use_stays(builds, task, tmp_path):
    held = program(builds, task, 0)
    for number in range(1, 5):
        program(builds, task, number)
    gc.collect()
    left = set((tmp_path / "artifacts").iterdir())
    assert held.artifact in left
    assert len(left) == 3


def test_a_forgotten_program_is_built_again_beside_the_one_in_use(builds, task):
    held = program(builds, task, 0)
    program(builds, task, 1)
    program(builds, task, 2)
    again = program(builds, task, 0)
    assert again is not held
    del held
    gc.collect()
    assert again.artifact.exists()


def test_a_failure_that_is_known_grows_no_tail(builds, task):
    depths = []
    for _ in range(3):
        with pytest.raises(CandidateFailure) as caught:
            builds.build(task, "no program", "cpp", ())
        depths.append(len(list(caught.traceback)))
    assert depths[1] == depths[2]


def test_the_second_of_two_builders_gets_what_the_first_left_of_the_time(task, tmp_path, monkeypatch):
    now, given = [100.0], []
    monkeypatch.setattr(build, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def spawn(request):
        folder = request.writable[0]
        (folder / TritonBuilder.artifact).mkdir(exist_ok=True)

        def collect(timeout_s, cap):
            given.append(timeout_s)
            now[0] += 0.75 * task.limits.build_s
            return "", SimpleNamespace(code=0)

        return SimpleNamespace(collect=collect, kill=lambda: None, close=lambda: None)

    builds = Builds(SimpleNamespace(spawn=spawn), tmp_path, None)
    builds._compile(task, "", "triton", {}, "0" * 64)
    assert given == pytest.approx([task.limits.build_s, 0.25 * task.limits.build_s])


def test_a_build_that_waits_for_its_turn_loses_no_time_by_it_and_says_that_it_waits(task, tmp_path, monkeypatch):
    """Two places, one of them taken by a build that does not end for long."""
    slow, second, waits = threading.Event(), threading.Event(), threading.Event()
    given, booked, now = {}, [], [100.0]
    monkeypatch.setattr(build, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def spawn(request):
        folder = request.writable[0]
        (folder / CppBuilder.artifact).touch()
        name = (folder / CppBuilder.source_name).read_text()

        def collect(timeout_s, cap):
            given[name] = timeout_s
            if name in {"slow", "second"}:
                assert {"slow": slow, "second": second}[name].wait(20)
            return "", SimpleNamespace(code=0)

        return SimpleNamespace(collect=collect, kill=lambda: None, close=lambda: None)

    def watch(news):
        if news is DeviceNews.QUEUES:
            waits.set()

    @contextmanager
    def book():
        booked.append(now[0])
        yield

    builds = Builds(SimpleNamespace(spawn=spawn), tmp_path, None, at_once=2, watch=watch)
    with ThreadPoolExecutor(3) as pool:
        first = [pool.submit(builds.build, task, name, "cpp", ()) for name in ("slow", "second")]
        while len(given) < 2:
            assert not any(future.done() for future in first)
        last = pool.submit(builds.build, task, "last", "cpp", (), book=book)
        assert waits.wait(20)
        now[0] += 1000.0
        second.set()
        assert last.result(20).build_s == 0.0
        assert given["last"] == task.limits.build_s
        assert booked == [1100.0]
        assert builds.build(task, "last", "cpp", ()) is last.result(), "what is known waits for no turn"
        assert not first[0].done()
        slow.set()
