"""The benchmark of what a proposal costs can still be run: otherwise that is found out when its figure is wanted."""

from benchmarks.llm_concurrency import TASK, configured
from benchmarks.llm_ways import PacedRun, Proposals, Recorded, stand_in_task

SETTINGS = configured("http://127.0.0.1:9", 4)


async def test_every_proposal_is_asked_for_booked_and_becomes_a_program(tmp_path):
    proposals = Proposals(stand_in_task(tmp_path / "task", TASK), SETTINGS, Recorded)
    for number in range(4):
        await proposals.propose(number)
    assert len(proposals.journal.ends) == 4
    assert all(end.answer for end in proposals.journal.ends.values())


async def test_a_run_goes_on_by_as_many_programs_as_it_is_told_each_judged_and_paid_for(tmp_path):
    task = stand_in_task(tmp_path / "task", TASK)
    async with PacedRun(tmp_path / "run", task, SETTINGS, Recorded, in_flight=4) as paced:
        await paced.go_on(6)
        progress = paced.run.progress()
        assert (progress.finished, progress.duplicates) == (1 + 6, 0)
        assert set(progress.verdicts) == {"passed", "build_error"}
        assert sum(spent.answers for spent in paced.run.storage.model_spending()) == 6
        assert paced.most == 4
