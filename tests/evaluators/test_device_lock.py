"""The lock around a device: for all users of a machine, safe in a folder that everybody may write."""

import fcntl
import os
import tempfile
import threading
from pathlib import Path

import pytest

from evaluators.device_account import DeviceNews
from evaluators.device_lock import DeviceLock
from evaluators.errors import UsageError

NOBODY = 65534


@pytest.fixture
def place(monkeypatch):
    """Where the lock of a device called ``x`` lies, in a folder that is open to everybody as ``/tmp`` is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder) / "kernel-evolve-x.lock"


def held_by_another(path):
    """A descriptor that holds the lock as another judge would."""
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def test_a_judge_waits_for_another_one_and_says_so(place):
    news, waits = [], threading.Event()

    def watch(what):
        news.append(what)
        if what is DeviceNews.HELD_UP:
            waits.set()

    lock, told = DeviceLock("x", watch), threading.Event()
    other = held_by_another(place)

    def hold():
        with lock.held():
            told.set()

    thread = threading.Thread(target=hold)
    thread.start()
    assert waits.wait(10)
    assert not told.is_set()
    os.close(other)
    thread.join(10)
    assert told.is_set()
    assert news == [DeviceNews.HELD_UP, DeviceNews.GOES_ON]


def test_who_waits_for_nobody_was_not_held_up(place):
    news = []
    with DeviceLock("x", news.append).held():
        pass
    assert news == []


@pytest.mark.skipif(os.getuid() != 0, reason="takes two users")
def test_judges_of_two_users_exclude_each_other(place):
    """The one that comes second neither owns the file nor may write it."""
    before = os.umask(0o077)
    try:
        first = DeviceLock("x")
    finally:
        os.umask(before)
    with first.held():
        assert locks_as_nobody() is False
    assert locks_as_nobody() is True


def locks_as_nobody():
    """Whether a judge of another user gets the lock."""
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            fcntl.flock(DeviceLock("x")._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os._exit(1)
        except BaseException:
            os._exit(2)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code < 2
    return code == 0


@pytest.mark.parametrize("make", [lambda p, t: p.symlink_to(t), lambda p, t: os.mkfifo(p), lambda p, t: p.mkdir()])
def test_what_somebody_puts_in_its_place_is_refused_and_left_alone(place, make):
    target = place.parent / "precious"
    target.write_text("mine")
    make(place, target)
    with pytest.raises(UsageError, match="remove it"):
        DeviceLock("x")
    assert target.read_text() == "mine"


def test_a_lock_that_was_cleaned_away_is_made_anew(place):
    lock = DeviceLock("x")
    place.unlink()
    with lock.held():
        other = os.open(place, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)


def test_what_is_put_in_its_place_while_it_is_free_costs_no_file_of_another(place):
    """The lock's own descriptor stays its own: a number that was given back is soon another file's."""
    lock = DeviceLock("x")
    place.unlink()
    place.mkdir()
    with pytest.raises(UsageError, match="remove it"), lock.held():
        pass
    other = os.open("/dev/null", os.O_RDONLY)
    place.rmdir()
    with lock.held():
        assert os.fstat(lock._fd).st_ino == place.stat().st_ino
    assert os.path.samestat(os.fstat(other), os.stat("/dev/null"))
    os.close(other)


def test_a_lock_that_could_not_be_taken_is_not_kept_from_others(place):
    lock = DeviceLock("x")
    theirs = os.open(place, os.O_RDONLY)
    place.unlink()
    place.mkdir()
    with pytest.raises(UsageError), lock.held():
        pass
    fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(theirs)
