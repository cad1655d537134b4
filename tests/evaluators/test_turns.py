"""Turns among a judge's threads: in order, some first, and nobody's is lost."""

import threading

import pytest

from evaluators.device_account import DeviceNews
from evaluators.turns import Turns


class Threads:
    """Threads that come for a turn one after another; each stays until it is let go."""

    def __init__(self, turns):
        self.turns, self.order, self._all = turns, [], {}

    def come(self, name, *, first=False):
        """Returns once it has its turn or waits for it."""
        settled, leave, entered = threading.Event(), threading.Event(), threading.Event()

        def watch(news):
            if news is DeviceNews.QUEUES:
                settled.set()

        def live():
            with self.turns.turn(watch, first=first):
                self.order.append(name)
                entered.set()
                settled.set()
                assert leave.wait(20)

        thread = threading.Thread(target=live)
        thread.start()
        self._all[name] = thread, leave, entered
        assert settled.wait(20)

    def entered(self, name):
        return self._all[name][2].wait(20)

    def let_go(self, name):
        thread, leave, _ = self._all[name]
        leave.set()
        thread.join(20)


def test_turns_are_taken_in_order_and_what_is_first_comes_before():
    threads = Threads(Turns(1))
    for name in "abc":
        threads.come(name)
    threads.come("x", first=True)
    threads.come("y", first=True)
    for name in ("a", "x", "y", "b", "c"):
        assert threads.entered(name)
        threads.let_go(name)
    assert threads.order == ["a", "x", "y", "b", "c"]


def test_as_many_as_there_are_places_have_theirs_at_once_and_one_that_stays_keeps_nobody_else():
    threads = Threads(Turns(2))
    for name in ("slow", "b", "c", "d"):
        threads.come(name)
    assert threads.order == ["slow", "b"]
    for name in ("b", "c", "d"):
        assert threads.entered(name)
        threads.let_go(name)
    threads.let_go("slow")
    assert threads.order == ["slow", "b", "c", "d"]


def test_who_waits_for_nobody_says_nothing_and_a_failure_gives_the_turn_on():
    turns, news = Turns(1), []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), turns.turn(news.append):
            _ = 1 / 0
    assert news == []


def test_who_gives_up_while_it_waits_keeps_nobody_waiting():
    threads = Threads(Turns(1))
    threads.come("a")

    def refuse(news):
        raise ConnectionError

    with pytest.raises(ConnectionError), threads.turns.turn(refuse):
        pass
    threads.come("b")
    threads.let_go("a")
    assert threads.entered("b")
    threads.let_go("b")


def test_who_gives_up_when_its_turn_has_come_passes_it_on():
    threads, caught = Threads(Turns(1)), []
    waits = threading.Event()
    threads.come("a")

    def refuse(news):
        if news is DeviceNews.PROCEEDS:
            raise ConnectionError
        waits.set()

    def live():
        try:
            with threads.turns.turn(refuse):
                pass
        except ConnectionError as error:
            caught.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    assert waits.wait(20)
    threads.come("b")
    threads.let_go("a")
    thread.join(20)
    assert len(caught) == 1
    assert threads.entered("b")
    threads.let_go("b")
