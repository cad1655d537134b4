"""The judge's client, opposite a judge that is only its messages."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from evaluators.client import ProcessJudge
from evaluators.errors import TaskError
from evaluators.wire import pack


class Messages:
    """What a judge says, and the client that hears it."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader()
        self.judge = ProcessJudge(SimpleNamespace(pid=0), self._reader, SimpleNamespace(write=lambda data: None))
        self.say(id=0, result={})

    def say(self, **message: object) -> None:
        self._reader.feed_data(pack(message))


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", ["fails", "is broken off"])
async def test_what_a_question_without_an_answer_had_is_known_to_its_task_and_then_forgotten(how):
    said = Messages()
    judge = said.judge
    had = []

    async def ask() -> None:
        try:
            await judge.evaluate("source", "cpp")
        except (TaskError, asyncio.CancelledError):
            had.append(judge.device_s())

    asking = asyncio.create_task(ask())
    await turns()
    said.say(id=1, device="has_device")
    await turns()
    assert judge.device_s(asking) > 0, "others may look"
    if how == "fails":
        said.say(id=1, error={"kind": "task", "message": "no"})
    else:
        asking.cancel()
    await asking
    assert had[0] > 0
    await turns()
    said.say(id=1, device="gives_back")
    await turns()
    assert judge.device_s(asking) == 0
    judge._listening.cancel()
