"""One request on the wire: its worst case set aside before, its true cost booked after, whatever happens between."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evolve.database.codec import storable
from evolve.llm.answer import Answer, Usage
from evolve.llm.budget import BudgetGate
from evolve.llm.classify import shortened
from evolve.llm.clock import Clock
from evolve.llm.draft import Counted, Draft, input_estimate, worst_usage
from evolve.llm.errors import Failure, FailureKind, Scope
from evolve.llm.journal import CallEnd, CallJournal, CallStart
from evolve.llm.prices import Price, PriceList
from evolve.llm.request import CallKey, Request
from evolve.llm.secret import Redactor
from evolve.llm.settings import PatienceSettings
from evolve.llm.throttle import Held, Patience, Throttle
from evolve.llm.transport import Deadlines, Plan, Refusal, exchange
from evolve.types import StopReason

Outcome = Answer | Failure | Refusal

_FREE = frozenset({FailureKind.CONNECTION, FailureKind.NOT_A_MODEL})
"""Failures in which no model can have worked; so is every error status."""
_CANCELLED = Failure(FailureKind.CANCELLED, Scope.RETRY, "the run was stopped while the answer was under way")


@dataclass(frozen=True)
class Books:
    """Where calls are written down and paid from."""

    journal: CallJournal
    budget: BudgetGate
    prices: PriceList


@dataclass
class Call:
    """One question on its way to an answer."""

    request: Request
    key: CallKey
    operator: str
    attempts: int = 0
    deadline: float | None = None
    """On the clock; set when the first request leaves."""


class Cashier:
    """Makes requests and pays for them."""

    def __init__(self, books: Books, patience: PatienceSettings, redactor: Redactor, clock: Clock) -> None:
        self._books = books
        self._patience = patience
        self._redactor = redactor
        self._clock = clock

    def hopeless(self, request: Request) -> StopReason | None:
        """The cap that a request would pass with its worst case, even if nothing were in flight."""
        worst_usd, worst_tokens = self._worst(request)
        return self._books.budget.hopeless(worst_usd or 0.0, worst_tokens)

    async def ask(self, call: Call, plan: Plan, throttle: Throttle) -> Outcome:
        """Send one request; or none, where the server wants a longer pause than the call can wait.

        Raises:
            CapError: its worst case does not fit the budget; nothing was sent.
        """
        model = call.request.model
        price = self._books.prices.of(model)
        worst_usd, worst_tokens = self._worst(call.request)
        expected = input_estimate(call.request) + call.request.max_output_tokens
        reservation = await self._books.budget.reserve(worst_usd or 0.0, worst_tokens)
        used = 0
        cost_usd: float | None = 0.0
        try:
            async with throttle.slot(model, expected, self._patience_of(call)):
                call.attempts += 1
                record = self._books.journal.begin(
                    CallStart(call.key, call.attempts, call.operator, call.request, worst_usd, worst_tokens)
                )
                draft, began = Draft(), self._clock.now()
                outcome: Outcome = _CANCELLED
                try:
                    outcome = await self._exchange(call, plan, draft)
                finally:
                    # Without an await: a cancelled task gets here too, and must not be torn.
                    usage = _usage(call.request, draft, outcome)
                    cost_usd = _cost(price, usage)
                    used = usage.total
                    self._books.journal.finish(record, _end(outcome, usage, cost_usd, self._clock.now() - began))
        except Held as held:
            return held.failure
        finally:
            self._books.budget.settle(reservation, cost_usd or 0.0, used)
            throttle.correct(expected, used)
        return outcome

    def _worst(self, request: Request) -> tuple[float | None, int]:
        price, usage = self._books.prices.of(request.model), worst_usage(request)
        return price.worst(usage) if price else None, usage.total

    def _patience_of(self, call: Call) -> Patience:
        until = self._clock.now() + self._patience.call_s if call.deadline is None else call.deadline
        return Patience(self._patience.backoff_most_s, until)

    async def _exchange(self, call: Call, plan: Plan, draft: Draft) -> Outcome:
        now = self._clock.now()
        if call.deadline is None:
            call.deadline = now + self._patience.call_s
        deadlines = Deadlines(
            total_s=max(0.0, call.deadline - now),
            first_byte_s=self._patience.first_byte_s,
            silence_s=self._patience.silence_s,
        )
        try:
            trouble = await exchange(plan, draft, deadlines, self._clock)
            # An answer that is whole is kept, even if the connection broke right after it: it is paid for.
            if isinstance(trouble, Refusal) or (trouble is not None and draft.finish is None):
                return self._clean(trouble)
            outcome = draft.to_answer(call.request, plan.quirks.notes())
            if trouble is not None and draft.counted == Counted() and isinstance(outcome, Answer):
                outcome = replace(outcome, usage=worst_usage(call.request))  # The count was what broke off.
            return self._clean(outcome)
        except Exception as error:  # a server may send what nobody thought of: it costs this request, not the search
            words = f"the answer cannot be read: {type(error).__name__}: {error}"
            return self._clean(Failure(FailureKind.BROKEN_STREAM, Scope.RETRY, storable(words)))

    def _clean(self, outcome: Outcome) -> Outcome:
        clean = self._redactor.clean_part  # a page or an answer may end in the middle of a key
        if isinstance(outcome, Refusal):
            message = shortened(clean(outcome.complaint.message))
            failure = replace(outcome.failure, message=message)
            return Refusal(replace(outcome.complaint, message=message), failure)
        if isinstance(outcome, Failure):
            return replace(outcome, message=shortened(clean(outcome.message)))
        return replace(
            outcome,
            text=clean(outcome.text),
            reasoning=clean(outcome.reasoning),
            reported_model=clean(outcome.reported_model),
            request_id=clean(outcome.request_id),
        )


def _usage(request: Request, draft: Draft, outcome: Outcome) -> Usage:
    if isinstance(outcome, Answer):
        return outcome.usage
    if isinstance(outcome, Refusal) or outcome.kind in _FREE:
        return Usage()
    return _most_used(request, draft)


def _most_used(request: Request, draft: Draft) -> Usage:
    """What a request that left and broke off can have used: nobody sees how long a model reasoned before it was cut."""
    usage, worst = draft.usage_or_estimate(request), worst_usage(request)
    if not usage.estimated:
        return usage
    return worst if draft.counted.input is None else replace(usage, output=worst.output)


def _cost(price: Price | None, usage: Usage) -> float | None:
    """An estimate does not know what the provider's cache did with the input, so it counts at the dearest."""
    if price is None:
        return None
    return price.worst(usage) if usage.estimated else price.cost(usage)


def _end(outcome: Outcome, usage: Usage, cost_usd: float | None, seconds: float) -> CallEnd:
    if isinstance(outcome, Answer):
        return CallEnd(outcome, None, usage, cost_usd, seconds)
    failure = outcome.failure if isinstance(outcome, Refusal) else outcome
    return CallEnd(None, failure, usage, cost_usd, seconds)
