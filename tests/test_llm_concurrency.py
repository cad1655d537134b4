"""The benchmark of what a proposal costs can still be run: otherwise that is found out when its figure is wanted."""

from benchmarks.llm_concurrency import ANSWER, Proposals, Recorded, _settings
from evolve.testing_llm import wires
from evolve.testing_llm.replies import Asked, Reply


def _pieces(endpoint) -> list[bytes]:
    asked = Asked(1, endpoint.wire, {"model": "m", "messages": [], "stream": True}, {})
    return list(wires.stream(asked, Reply(ANSWER)))


async def test_every_proposal_is_asked_for_booked_and_becomes_a_program():
    proposals = Proposals(_settings("http://127.0.0.1:9", 4), lambda endpoint: Recorded(_pieces(endpoint)))
    for number in range(4):
        await proposals.propose(number)
    assert len(proposals.journal.ends) == 4
    assert all(end.answer for end in proposals.journal.ends.values())
