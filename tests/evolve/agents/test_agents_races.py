"""Agents in places nobody planned for: before the seed, without a place left, two at one instant."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluators.errors import JudgeError
from evolve.agents.awaiting import OwnJudge, Standstill, take_number, take_verdict
from evolve.agents.desk import Sheet
from evolve.agents.host import KeptJudge
from evolve.run_directory import RunDirectory
from evolve.settings import Caps
from evolve.testing import fake_source
from evolve.types import Program
from tests.evolve.agents.test_agents_search import WITHIN_S, Party


async def test_what_is_handed_in_before_the_seed_waits_for_it(tmp_path: Path) -> None:
    """The run was killed before its first program was stored: what comes then must not take the seed's number."""
    party = Party.create(tmp_path)
    with party.desk() as desk:
        answer = desk.inject(Sheet(fake_source(5.0), agent="cid"))
        early = await take_number(desk, answer)
        assert isinstance(early, Standstill)
        assert early.text == "the seed program comes first: the source is kept until that is judged"
        program = await take_verdict(desk, answer, OwnJudge(desk, party.world.start_judge, asyncio.Event()))
    assert isinstance(program, Program)
    assert [p.operator for p in party.world.programs()] == ["seed", "inject"]


async def test_a_source_without_a_place_starts_a_judge_once_at_most(tmp_path: Path) -> None:
    """Two leases hold the places that the cap leaves; a third program has to wait, and who brings it is told."""
    party = await Party.create(tmp_path, Caps(candidates=3)).seeded()
    party.now = time.time()
    with party.desk() as desk:
        leases = [desk.ask(name, 3600).lease.id for name in ("ann", "bob")]
        answer = desk.inject(Sheet(fake_source(5.0), agent="cid"))
        started = party.world.judges_started
        async with asyncio.timeout(WITHIN_S):
            result = await take_verdict(desk, answer, OwnJudge(desk, party.world.start_judge, asyncio.Event()))
        assert isinstance(result, Standstill)
        assert "no place" in result.text
        assert party.world.judges_started <= started + 1
        assert leases == [lease.id for lease in desk.mailbox.open_leases(party.now)]


async def test_two_who_wait_for_one_judge_are_both_told_that_it_cannot_start(tmp_path: Path) -> None:
    party = await Party.create(tmp_path).seeded()

    async def broken() -> None:
        await asyncio.sleep(0)
        raise JudgeError("no compiler")

    with party.desk() as desk:
        judge = KeptJudge(OwnJudge(desk, broken, asyncio.Event()))  # type: ignore[arg-type]
        answers = [desk.inject(Sheet(fake_source(score), agent="cid")) for score in (5.0, 6.0)]
        told = await asyncio.gather(*(take_verdict(desk, a, judge) for a in answers), return_exceptions=True)
    assert [str(error) for error in told] == ["no compiler", "no compiler"]


def test_two_who_write_one_file_leave_it_whole(tmp_path: Path) -> None:
    """Two orders at one instant write the run's configuration at once."""
    folder, texts = RunDirectory(tmp_path), [letter * 200_000 for letter in "ab"]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(50):
            list(pool.map(lambda text: folder.write(folder.config, text), texts))
            assert folder.config.read_text() in texts
    assert [file.name for file in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("content", [b"\xff\xfe caf\xe9", b""])
def test_a_best_program_that_somebody_has_overwritten_is_written_again(tmp_path: Path, content: bytes) -> None:
    folder = RunDirectory(tmp_path)
    folder.best("python").write_bytes(content)
    folder.write_best("x = 1\n", "python")
    assert folder.best("python").read_text() == "x = 1\n"
