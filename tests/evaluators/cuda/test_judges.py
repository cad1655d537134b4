"""The tests on a device share a judge a task; no two judges are ever open, and no test gets a broken one."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.evaluators.cuda.judges import Judges, by_task


class Device:
    def __init__(self):
        self.alive, self.log = [], []

    @contextmanager
    def opens(self, task):
        assert not self.alive, "two judges at once"
        if task == "impossible":
            self.log.append(task)
            pytest.skip("no GPU on this machine")
        made = SimpleNamespace(task=task, well=True)
        self.alive.append(made)
        self.log.append(task)
        try:
            yield made
        finally:
            self.alive.remove(made)


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def shared(device):
    made = Judges(device.opens, lambda judge: judge.well)
    yield made
    made.close()
    assert not device.alive


def test_one_judge_a_task_and_one_at_a_time(device, shared):
    for task in ("a", "a", "b", "b", "a"):
        assert shared.of(task).task == task
    assert device.log == ["a", "b", "a"]


def test_after_a_failed_test_a_judge_that_is_well_is_kept_and_another_is_not(device, shared):
    first = shared.of("a")
    shared.doubt()
    assert shared.of("a") is first
    first.well = False
    assert shared.of("a") is first  # nothing failed: nobody looked
    shared.doubt()
    assert shared.of("a") is not first
    assert device.log == ["a", "a"]


def test_what_cannot_be_opened_is_not_tried_again(device, shared):
    shared.of("a")
    for _ in range(3):
        with pytest.raises(pytest.skip.Exception, match="no GPU"):
            shared.of("impossible")
    assert device.log == ["a", "impossible"]
    assert shared.of("a").task == "a"


def test_a_closed_judge_is_opened_again(device, shared):
    shared.of("a")
    shared.close()
    assert not device.alive
    assert shared.of("a").task == "a"


ORDER = """
import pytest

@pytest.mark.parametrize("court", ["b"], indirect=True)
def test_b(court): pass

def test_other(): pass

@pytest.mark.parametrize("court", ["a"], indirect=True)
@pytest.mark.parametrize("name", ["x", "y"])
def test_a(court, name): pass

@pytest.mark.parametrize("court", ["b"], indirect=True)
def test_b_again(court): pass

def test_of_softmax(judge): pass

def test_its_own(judges): pass
"""
FIXTURES = """
import pytest
from tests.evaluators.cuda.judges import by_task

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items): items[:] = by_task(items)

@pytest.fixture(scope="session")
def judges(): return None

@pytest.fixture
def judge(judges): return None

@pytest.fixture
def court(request, judges): return request.param
"""


class Collected:
    """Notes the order in which tests would run."""

    def pytest_collection_finish(self, session):
        self.items = list(session.items)


def test_tests_of_one_task_follow_each_other(tmp_path):
    (tmp_path / "conftest.py").write_text(FIXTURES)
    (tmp_path / "test_order.py").write_text(ORDER)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:asyncio\n")
    seen = Collected()
    arguments = [str(tmp_path), "--collect-only", "-q", "-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider"]
    assert pytest.main(arguments, plugins=[seen]) == 0
    names = [item.name for item in seen.items]
    assert names == [
        "test_its_own",
        "test_other",
        "test_of_softmax",
        *("test_a[x-a]", "test_a[y-a]"),
        *("test_b[b]", "test_b_again[b]"),
    ]
    assert by_task(seen.items) == seen.items
