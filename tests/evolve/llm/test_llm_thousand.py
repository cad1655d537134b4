"""A thousand calls, three in ten of the requests going wrong: nothing lost, nothing paid or booked twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from evolve.llm.answer import Answer
from evolve.llm.budget import Purse
from evolve.llm.errors import CallError, CapError
from evolve.llm.request import CallKey
from evolve.testing_llm.replies import Fault, Reply

CALLS = 1000
FAULTS = [
    Fault.RATE_LIMIT, Fault.RATE_LIMIT_AFTER, Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.HTML, Fault.HTML_502,
    Fault.NOTHING, Fault.RESET, Fault.ERROR_EVENT, Fault.CUT, Fault.SILENCE,
]  # fmt: skip
# On the fast clock, 300 seconds to one of the wall's: generous enough that a busy machine is no fault of its own.
PATIENCE = {"attempts": 12, "call_s": 200_000, "first_byte_s": 20_000, "silence_s": 1500, "backoff_most_s": 20}


def _faulty(rng: random.Random):
    def script(asked):
        fault = rng.choice(FAULTS) if rng.random() < 0.3 else None
        return Reply(f"answer to {asked.prompt} " * 6, fault=fault, usage=rng.random() < 0.9)

    return script


async def _ask_all(p, calls: int) -> list[Answer | CallError | CapError]:
    gate = asyncio.Semaphore(100)

    async def one(number: int) -> Answer | CallError | CapError:
        async with gate:
            try:
                request = p.request(f"prompt {number}", provider=("local", "second")[number % 2])
                return await p.client.complete(request, CallKey(number, "propose"), "rewrite")
            except (CallError, CapError) as error:
                return error

    return await asyncio.gather(*(one(n) for n in range(calls)))


async def test_every_call_is_answered_once_and_the_totals_are_right(pair):
    script = _faulty(random.Random(20261130))
    async with pair("chat", script, patience=PATIENCE, provider={"concurrency": 64}, factor=300.0) as p:
        outcomes = await _ask_all(p, CALLS)
        billed = p.server.billed
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, Answer), f"call {number} was lost: {outcome}"
        assert outcome.text.startswith(f"answer to prompt {number} ")

    complete = Counter(b.asked.prompt for b in billed if b.complete)
    assert complete == Counter({f"prompt {n}": 1 for n in range(CALLS)}), "a whole answer was paid for twice"

    starts, ends = p.journal.starts, p.journal.ends
    assert len(starts) == len(p.server.asked)
    assert sorted(ends) == list(range(len(starts))), "every request that left is booked, once"
    assert Counter(starts[n].key for n, end in ends.items() if end.answer) == Counter(
        {CallKey(n, "propose"): 1 for n in range(CALLS)}
    )
    assert p.purse.spent_usd == pytest.approx(sum(end.cost_usd for end in ends.values()))
    assert p.purse.spent_tokens == sum(end.usage.total for end in ends.values())

    counted = [end.usage for end in ends.values() if end.answer and not end.usage.estimated]
    exact = [b for b in billed if b.complete and (b.asked.prompt in _prompts_counted(p))]
    assert sum(u.input for u in counted) == sum(b.input_tokens for b in exact)
    assert sum(u.output for u in counted) == sum(b.output_tokens for b in exact)
    owed = sum(b.input_tokens * 2 + b.output_tokens * 10 for b in billed) / 1e6
    worked = {n: end for n, end in ends.items() if end.failure and end.usage.total}
    assert len(worked) >= sum(not b.complete for b in billed) > 0
    assert all(end.usage.output == 4096 for end in worked.values()), "nobody knows how much a broken answer had used"
    assert all(end.cost_usd <= starts[n].worst_usd for n, end in ends.items())
    assert owed <= p.purse.spent_usd, "estimates may be high, not low"
    answers = sum(end.cost_usd for end in ends.values() if end.answer)
    owed_for_answers = sum(b.input_tokens * 2 + b.output_tokens * 10 for b in billed if b.complete) / 1e6
    assert owed_for_answers <= answers <= owed_for_answers * 1.2


def _prompts_counted(p) -> set[str]:
    return {
        p.journal.starts[n].request.messages[-1].text
        for n, end in p.journal.ends.items()
        if end.answer and not end.usage.estimated
    }


@pytest.mark.parametrize("cap_usd", [0.05, 0.1])
async def test_the_cap_holds_with_calls_in_flight_and_failing(pair, cap_usd):
    highest = 0.0

    class Watched(Purse):
        def settle(self, reservation, usd, tokens):
            nonlocal highest
            super().settle(reservation, usd, tokens)
            highest = max(highest, self.spent_usd)

    script = _faulty(random.Random(7))
    purse = Watched(usd_cap=cap_usd)
    async with pair("chat", script, purse=purse, patience=PATIENCE, factor=300.0) as p:
        outcomes = await _ask_all(p, 400)
        owed = sum(b.input_tokens * 2 + b.output_tokens * 10 for b in p.server.billed) / 1e6
    assert any(isinstance(o, CapError) for o in outcomes)
    assert any(isinstance(o, Answer) for o in outcomes)
    assert highest <= cap_usd
    assert owed <= cap_usd
    # What is left is less than one more call's worst case: 4096 tokens out at 10 dollars a million. The cap was used.
    assert purse.spent_usd > cap_usd - 0.045
