"""What the search knows of a judge's device without asking."""

from __future__ import annotations

import pytest

from evaluators.device_account import DeviceAccount, DeviceNews, in_use


class Told:
    """An account, and a clock to tell it things by."""

    def __init__(self):
        self.now = 0.0
        self.account = DeviceAccount(lambda: self.now)

    def at(self, now, question, news):
        self.now = now
        self.account.note(question, news)


@pytest.fixture
def told():
    return Told()


def test_a_question_has_had_the_device_for_as_long_as_it_was_its(told):
    told.account.open(1)
    told.account.open(2)
    told.at(10, 1, DeviceNews.HAS_DEVICE)
    told.at(13, 1, DeviceNews.GIVES_BACK)
    told.at(13, 2, DeviceNews.HAS_DEVICE)
    told.at(20, 2, DeviceNews.GIVES_BACK)
    told.at(21, 1, DeviceNews.HAS_DEVICE)
    told.now = 22
    assert told.account.device_s(1) == 4, "with what it has it for at this instant"
    assert told.account.device_s(2) == 7
    assert told.account.device_s(3) == 0
    told.account.forget(1)
    assert told.account.device_s(1) == 0
    told.at(30, 1, DeviceNews.HAS_DEVICE)
    told.now = 31
    assert told.account.device_s(1) == 0, "what the judge tells of it afterwards is not kept"


def test_it_was_held_up_for_as_long_as_it_waited_for_another_judge(told):
    told.at(10, 0, DeviceNews.HELD_UP)
    told.now = 14
    assert (told.account.held_up_s(60), told.account.held_up_s(1)) == (4, 1)
    told.at(15, 0, DeviceNews.GOES_ON)
    told.at(20, 3, DeviceNews.HELD_UP)
    told.now = 22
    assert told.account.held_up_s(60) == 7
    assert told.account.held_up_s(8) == 3
    assert told.account.held_up_s(0) == 0
    assert told.account.device_s(3) == 0, "waiting is no use"


def test_what_a_program_ends_by_gives_the_device_back():
    news = []
    with pytest.raises(ZeroDivisionError), in_use(news.append):
        _ = 1 / 0
    assert news == [DeviceNews.HAS_DEVICE, DeviceNews.GIVES_BACK]


def test_what_a_question_waits_for_others_to_its_judge_is_its_own_and_no_second_counts_twice(told):
    told.account.open(1)
    told.account.open(2)
    told.at(10, 1, DeviceNews.QUEUES)
    told.now = 13
    assert (told.account.queued_s(1, 60), told.account.queued_s(1, 1), told.account.queued_s(2, 60)) == (3, 1, 0)
    told.at(15, 2, DeviceNews.HELD_UP)  # whom the first waits for waits for another judge
    told.at(19, 2, DeviceNews.GOES_ON)
    told.at(20, 1, DeviceNews.PROCEEDS)
    told.now = 30
    assert told.account.held_up_s(60) == 4
    assert told.account.queued_s(1, 60) == 6
    assert told.account.queued_s(1, 13) == 1
    assert told.account.queued_s(1, 5) == 0
    told.at(40, 1, DeviceNews.QUEUES)
    told.now = 42
    assert told.account.queued_s(1, 60) == 8
    told.account.forget(1)
    told.at(50, 1, DeviceNews.PROCEEDS)
    assert told.account.queued_s(1, 60) == 0
