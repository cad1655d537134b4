"""Improvements are counted apart from programs that only found an empty cell of the archive."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from evaluators.evaluation import Status
from evaluators.task import ArchiveDimension
from evolve.database.reader import StorageReader
from evolve.improvements import Gains, gains
from evolve.settings import Caps
from evolve.testing import FakeJudge, fake_source
from evolve.types import Program, Proposal, ProposeContext
from tests.evolve.searching import World, settings

CELLS = (ArchiveDimension(measure="regs", low=0, high=100, bins=10),)
TIMED = pytest.mark.parametrize("timed", [True, False], ids=["time", "value"])


class Scripted:
    """Hands over sources one after another, each under an operator of its own, with the parent that it names."""

    name = "llm"

    def __init__(self, *children: tuple[str, int, str]) -> None:
        self._left = deque(children)

    async def propose(self, context: ProposeContext) -> Proposal | None:
        if not self._left:
            return None
        operator, parent, source = self._left.popleft()
        return Proposal(source, "python", operator, self.name, parents=(parent,), model="local/m1")

    def tell(self, program: Program) -> None:
        """Nothing."""


async def counted(tmp_path: Path, timed: bool, *children: tuple[str, int, str], **search: int) -> Gains:
    seed = fake_source(1.0, regs=5)
    world = World(tmp_path, settings(Caps(), islands=1, **search), judge=FakeJudge(timed=timed))
    world.task_options = {"archive": CELLS, "seed_source": seed}
    world.proposer = Scripted(*children)
    await world.run()
    with world.view() as view:
        return of(view.storage, "time" if timed else "value")


def of(storage: StorageReader, metric: str) -> Gains:
    return gains(storage.outcomes(), storage.margins(), metric, 0.0)


@TIMED
async def test_what_is_slower_than_its_parent_is_no_improvement_wherever_it_finds_room(tmp_path, timed):
    found = await counted(
        tmp_path,
        timed,
        ("slower", 1, fake_source(0.5, regs=55)),
        ("faster", 1, fake_source(1.2, regs=5)),
        ("fails", 1, fake_source(9.0, status=Status.WRONG_VALUES)),
    )
    assert found.placed == {("local/m1", "slower"): 1, ("local/m1", "faster"): 1}
    assert found.improved == {("local/m1", "faster"): 1}


async def test_a_difference_that_the_intervals_do_not_show_is_no_improvement(tmp_path):
    found = await counted(tmp_path, True, ("same", 1, fake_source(1.005, regs=55)))
    assert (found.placed, found.improved) == ({("local/m1", "same"): 1}, {})


@TIMED
async def test_what_a_mended_program_is_worth_is_told_by_its_parents_parent(tmp_path, timed):
    broken = fake_source(0.0, status=Status.BUILD_ERROR)
    found = await counted(tmp_path, timed, ("diff", 1, broken), ("repair", 2, fake_source(0.9, regs=35)))
    assert found.improved == {}
    found = await counted(tmp_path / "2", timed, ("diff", 1, broken), ("repair", 2, fake_source(1.3, regs=35)))
    assert found.improved == {("local/m1", "repair"): 1}


async def test_a_new_best_counts_where_its_parent_was_not_measured_side_by_side(tmp_path):
    """Its interval touches that of its parent, but a duel says that it is faster than the best, which is another."""
    found = await counted(
        tmp_path,
        True,
        ("first", 1, fake_source(1.03, regs=25)),
        ("second", 2, fake_source(1.03 * 1.015, regs=45)),
    )
    assert found.improved == {("local/m1", "first"): 1, ("local/m1", "second"): 1}


async def test_a_structure_is_credited_with_what_tuning_made_of_it_and_once(tmp_path):
    tunable = "GAIN = 0.9  # tune: 0.9, 1.4, 1.8\n# fake: score=GAIN regs=5\n"
    found = await counted(tmp_path, False, ("rewrite", 1, tunable), tune_inside=2)
    assert found.improved == found.placed == {("local/m1", "rewrite"): 1}
