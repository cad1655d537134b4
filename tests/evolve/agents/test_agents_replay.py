"""A run in which agents and people took part is replayed to the same lineage, without them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from evolve.agents import orders
from evolve.agents.awaiting import OwnJudge, take_number, take_verdict
from evolve.agents.desk import Sheet
from evolve.loop import Idle, WeightedProposer
from evolve.testing import FakeProposer, fake_source
from tests.evolve.agents.test_agents_search import Party, child, until, verdict
from tests.evolve.test_replay import check


async def test_an_answer_taken_by_whoever_tells_after_a_search_that_had_nothing_to_offer(tmp_path: Path) -> None:
    """Numbers that came to nothing are given again by the next process that takes the run up."""
    party = await Party.create(tmp_path, give_up_after=3).seeded()
    party.proposers = [WeightedProposer(FakeProposer(lambda context: None))]
    await party.search(Idle(leases=False))
    with party.desk() as desk:
        assert await take_number(desk, desk.tell(desk.ask("ann", 60).lease.id, Sheet(fake_source(3.0)))) == 2
        assert await take_number(desk, desk.inject(Sheet(fake_source(2.5), agent="eve"))) == 3
    await party.search(Idle(leases=False))
    assert (await check(party.world, tmp_path / "again")).programs == 3


async def test_answers_and_orders_beside_a_search_and_without_one(tmp_path: Path) -> None:
    party = await Party.create(tmp_path).seeded()
    party.proposers = [WeightedProposer(FakeProposer(child))]
    async with party.going_on() as desk:
        await until(lambda: len(party.world.programs()) > 3)
        await verdict(desk, desk.ask("ann", 60).lease.id, fake_source(2.0))
        orders.ban(desk, "tables", "TABLE")
        orders.pause(desk, 1)
        await verdict(desk, desk.ask("bob", 60).lease.id, fake_source(9.0, text="TABLE"))
        later = len(party.world.programs()) + 3
        await until(lambda: len(party.world.programs()) > later)
    party.proposers = []
    with party.desk() as desk:
        await take_number(desk, desk.tell(desk.ask("ann", 60).lease.id, Sheet(fake_source(3.0))))
        orders.unpause(desk, 1)
        await take_number(desk, desk.inject(Sheet(fake_source(2.5), agent="eve")))
        answer = desk.inject(Sheet(fake_source(4.0), agent="eve"), parent=1)
        host = OwnJudge(desk, party.world.start_judge, asyncio.Event())
        await take_verdict(desk, answer, host)
    replayed = await check(party.world, tmp_path / "again")
    assert replayed.programs == len(party.world.programs())
