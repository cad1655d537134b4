"""One judge at a time for the tests on a device: opened where a test wants its task, kept for those that come next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, TypeVar

import pytest

T = TypeVar("T")
FIXTURES = ("judge", "court")
"""What a test asks for that wants a judge of one task."""
DEFAULT_TASK = "softmax"


class Judges(Generic[T]):
    """A judge takes half a minute to start and most of a device's memory: the one before is closed first."""

    def __init__(self, opens: Callable[[str], AbstractContextManager[T]], is_well: Callable[[T], bool]) -> None:
        """Nothing is open yet.

        Args:
            opens: a judge of a task.
            is_well: whether a judge may be kept although a test failed on it.
        """
        self._opens, self._is_well = opens, is_well
        self._stack = ExitStack()
        self._task: str | None = None
        self._one: T | None = None
        self._doubted = False
        self._refusals: dict[str, BaseException] = {}

    def of(self, task: str) -> T:
        """The judge of a task; what was raised when it was opened is raised again."""
        if task in self._refusals:
            raise self._refusals[task]
        if self._task != task or self._one is None or (self._doubted and not self._is_well(self._one)):
            self.close()
            try:
                self._one = self._stack.enter_context(self._opens(task))
            except BaseException as error:
                self._refusals[task] = error
                raise
            self._task = task
        self._doubted = False
        return self._one

    def doubt(self) -> None:
        """A test failed: look at the judge before the next one gets it."""
        self._doubted = True

    def close(self) -> None:
        """End what is open."""
        self._task, self._one, self._doubted = None, None, False
        self._stack.close()


def wanted_task(item: pytest.Function) -> str | None:
    """The task whose judge a test wants; ``""`` where it opens some itself, ``None`` where it needs none."""
    if "judges" not in item.fixturenames:
        return None
    if not set(FIXTURES) & set(item.fixturenames):
        return ""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return next((parameters[name] for name in FIXTURES if name in parameters), DEFAULT_TASK)


def by_task(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The same tests; those that want judges, in the places that they had among the others, task after task.

    First come those that open some themselves, and then those of the default task, whose judge these may leave open.
    """
    tasks = {item: wanted_task(item) for item in items if isinstance(item, pytest.Function)}
    places = [place for place, item in enumerate(items) if tasks.get(item) is not None]
    ordered = list(items)
    moved = sorted((items[place] for place in places), key=lambda item: _turn(tasks[item] or ""))
    for place, item in zip(places, moved, strict=True):
        ordered[place] = item
    return ordered


def _turn(task: str) -> tuple[bool, str]:
    return task not in ("", DEFAULT_TASK), task
