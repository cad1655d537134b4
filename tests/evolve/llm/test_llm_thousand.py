"""A thousand calls on a run's books, three in ten of the requests going wrong: nothing lost, paid or booked twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import asynccontextmanager

import pytest

from evolve.budget import NOTHING
from evolve.database.model_records import CallStatus, ModelCall
from evolve.llm.answer import Answer
from evolve.llm.budget import Purse
from evolve.llm.errors import CallError, CapError, FailureKind
from evolve.llm.request import CallKey
from evolve.model_books import RunGate, RunJournal
from evolve.settings import Caps, RunSettings
from evolve.testing_llm.replies import Billed, Fault, Reply
from evolve.view import RunView
from tests.evolve.searching import World

CALLS = 1000
FAULTS = [
    Fault.RATE_LIMIT, Fault.RATE_LIMIT_AFTER, Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.HTML, Fault.HTML_502,
    Fault.NOTHING, Fault.RESET, Fault.ERROR_EVENT, Fault.CUT, Fault.SILENCE,
]  # fmt: skip
DRIPPING = frozenset(range(3, 100, 5))
"""Calls whose streams trickle and never end: only the deadline of the whole call ends them."""
# On the fast clock, 300 seconds to one of the wall's: generous enough that a busy machine is no fault of its own.
PATIENCE = {"attempts": 12, "call_s": 4500, "first_byte_s": 20_000, "silence_s": 1500, "backoff_most_s": 20}
IMPATIENCE = {**PATIENCE, "call_s": 900}


def _faulty(rng: random.Random):
    silent: set[str] = set()  # A call that waits for silence to end twice has little left of its deadline.

    def script(asked):
        if int(asked.prompt.removeprefix("prompt ")) in DRIPPING:
            return Reply("a word now and then " * 6, fault=Fault.DRIP)
        fault = rng.choice(FAULTS) if rng.random() < 0.3 else None
        if fault is Fault.SILENCE and asked.prompt in silent:
            fault = Fault.CUT
        if fault is Fault.SILENCE:
            silent.add(asked.prompt)
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


@asynccontextmanager
async def _on_a_runs_books(pair, folder, script, caps: Caps, **settings):
    """A client whose calls are booked in a run's database and paid from its budget, both as in a search."""
    with World(folder, RunSettings(caps=caps)).create() as run:
        journal, gate = RunJournal(run.storage, run.booking), Watched(run.budget)
        async with pair("chat", script, journal=journal, purse=gate, factor=300.0, **settings) as p:
            yield p, run


class Watched(RunGate):
    """Remembers the most that was ever spent and promised together."""

    highest_usd = 0.0

    async def reserve(self, worst_usd, worst_tokens):
        promise = await super().reserve(worst_usd, worst_tokens)
        together = self._budget.spent.charge + self._budget.promised
        self.highest_usd = max(self.highest_usd, together.dollars)
        return promise


async def test_every_call_is_answered_once_and_the_totals_are_right(pair, tmp_path):
    script = _faulty(random.Random(20261130))
    provider = {"concurrency": 64}
    async with _on_a_runs_books(pair, tmp_path, script, Caps(), patience=PATIENCE, provider=provider) as (p, run):
        outcomes = await _ask_all(p, CALLS)
        billed, asked, spent = p.server.billed, p.server.asked, run.budget.spent.charge
        assert run.budget.promised == NOTHING, "nothing is set aside any more"
    for number, outcome in enumerate(outcomes):
        if number in DRIPPING:
            assert isinstance(outcome, CallError), f"call {number} never ends"
            assert outcome.failure.kind is FailureKind.DEADLINE
        else:
            assert isinstance(outcome, Answer), f"call {number} was lost: {outcome}"
            assert outcome.text.startswith(f"answer to prompt {number} ")
    answered = Counter(n for n in range(CALLS) if n not in DRIPPING)
    complete = Counter(b.asked.prompt for b in billed if b.complete)
    assert complete == Counter({f"prompt {n}": 1 for n in answered}), "a whole answer was paid for twice"

    with RunView.open(tmp_path / "run") as view:
        calls, totals = list(view.storage.model_calls()), view.storage.totals().charge
        bookings = [entry for entry in view.storage.ledger() if entry.kind == "model"]
        spending = view.storage.model_spending()
    assert len(calls) == len(asked) == len(bookings), "every request that left is booked, once"
    assert not [call for call in calls if call.reply is None], "and ended"
    assert Counter(c.request.program for c in calls if c.reply.status is CallStatus.ANSWERED) == answered
    dollars, tokens = sum(c.reply.dollars for c in calls), sum(c.reply.tokens for c in calls)
    for charge in (totals, spent, sum((entry.charge for entry in bookings), NOTHING)):
        assert (charge.dollars, charge.tokens) == (pytest.approx(dollars), tokens)
    assert sum(s.dollars for s in spending) == pytest.approx(dollars)
    assert sum(s.requests for s in spending) == len(calls)
    _compare(calls, billed)


def _compare(calls: list[ModelCall], billed: list[Billed]) -> None:
    """What was booked with what the server would charge."""
    counted = [c for c in calls if c.reply.status is CallStatus.ANSWERED and not c.reply.estimated]
    prompts = {f"prompt {c.request.program}" for c in counted}
    exact = [b for b in billed if b.complete and b.asked.prompt in prompts]
    assert sum(c.reply.tokens - c.reply.tokens_out for c in counted) == sum(b.input_tokens for b in exact)
    assert sum(c.reply.tokens_out for c in counted) == sum(b.output_tokens for b in exact)
    worked = [c for c in calls if c.reply.status is CallStatus.FAILED and c.reply.tokens]
    assert len(worked) >= sum(not b.complete for b in billed) > len(DRIPPING)
    assert {c.reply.tokens_out for c in worked} == {4096}, "nobody knows how much a broken answer had used"
    assert all(c.reply.dollars <= c.request.worst_dollars for c in calls)
    assert _owed(billed) <= sum(c.reply.dollars for c in calls), "estimates may be high, not low"
    answers = sum(c.reply.dollars for c in calls if c.reply.status is CallStatus.ANSWERED)
    owed_for_answers = _owed(b for b in billed if b.complete)
    assert owed_for_answers <= answers <= owed_for_answers * 1.2


def _owed(billed: Iterable[Billed]) -> float:
    return sum(b.input_tokens * 2 + b.output_tokens * 10 for b in billed) / 1e6


@pytest.mark.parametrize("cap_usd", [0.05, 0.1])
async def test_the_cap_of_a_run_holds_with_calls_in_flight_and_failing(pair, tmp_path, cap_usd):
    script = _faulty(random.Random(7))
    async with _on_a_runs_books(pair, tmp_path, script, Caps(dollars=cap_usd), patience=IMPATIENCE) as (p, _):
        outcomes = await _ask_all(p, 400)
        owed, highest = _owed(p.server.billed), p.purse.highest_usd
    with RunView.open(tmp_path / "run") as view:
        booked = view.storage.totals().charge.dollars
    assert any(isinstance(o, CapError) for o in outcomes)
    assert any(isinstance(o, Answer) for o in outcomes)
    assert owed <= booked <= highest <= cap_usd
    # What is left is less than one more call's worst case: 4096 tokens out at 10 dollars a million. The cap was used.
    assert booked > cap_usd - 0.045


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
    async with pair("chat", script, purse=purse, patience=IMPATIENCE, factor=300.0) as p:
        outcomes = await _ask_all(p, 400)
        owed = _owed(p.server.billed)
    assert any(isinstance(o, CapError) for o in outcomes)
    assert any(isinstance(o, Answer) for o in outcomes)
    assert highest <= cap_usd
    assert owed <= cap_usd
    # What is left is less than one more call's worst case: 4096 tokens out at 10 dollars a million. The cap was used.
    assert purse.spent_usd > cap_usd - 0.045
