"""What a run gives its models' clients: the journal and the budget, both behind their seams in :mod:`evolve.llm`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

from evolve.booking import Booking
from evolve.budget import Budget, Charge
from evolve.budget import Reservation as Promise
from evolve.database.codec import storable
from evolve.database.model_records import CallStatus, ModelCall, ModelReply, ModelRequest
from evolve.database.storage import Storage
from evolve.llm.answer import Answer, Finish, Usage
from evolve.llm.budget import Reservation
from evolve.llm.errors import CapError
from evolve.llm.journal import CallEnd, CallStart, StoredAnswer
from evolve.llm.request import CallKey, Request
from evolve.llm.settings import ModelName
from evolve.types import StopReason


class RunJournal:
    """A :class:`evolve.llm.journal.CallJournal` in the run's database."""

    def __init__(self, storage: Storage, booking: Booking) -> None:
        """Answers from before are looked for under the numbers of dialogues that are open now."""
        self._storage = storage
        self._booking = booking
        self._resumed = {dialogue.number for dialogue in storage.open_dialogues()}
        self._open: dict[int, int] = {}

    def recall(self, key: CallKey) -> StoredAnswer | None:
        """See :class:`~evolve.llm.journal.CallJournal`."""
        if key.number not in self._resumed:
            return None
        call = self._storage.model_answer(key.number, key.step)
        return None if call is None else stored_answer(call)

    def begin(self, start: CallStart) -> int:
        """See :class:`~evolve.llm.journal.CallJournal`."""
        number = self._booking.model_asked(_request(start))
        self._open[number] = start.key.number
        return number

    def finish(self, record: int, end: CallEnd) -> None:
        """See :class:`~evolve.llm.journal.CallJournal`."""
        self._booking.model_ended(record, self._open.pop(record), _reply(end))


class RunGate:
    """A :class:`evolve.llm.budget.BudgetGate` on the run's budget."""

    def __init__(self, budget: Budget) -> None:
        """Calls are paid from ``budget``."""
        self._budget = budget
        self._promises: dict[int, Promise] = {}

    def hopeless(self, worst_usd: float, worst_tokens: int) -> StopReason | None:
        """See :class:`~evolve.llm.budget.BudgetGate`."""
        return self._budget.hopeless(Charge(dollars=worst_usd, tokens=worst_tokens))

    async def reserve(self, worst_usd: float, worst_tokens: int) -> Reservation:
        """See :class:`~evolve.llm.budget.BudgetGate`."""
        worst = Charge(dollars=worst_usd, tokens=worst_tokens)
        while isinstance(promise := self._budget.reserve(worst), StopReason):
            reason = self._budget.hopeless(worst)
            if reason is not None:
                raise CapError(self._why(worst, reason), reason)
            room = asyncio.Event()
            self._budget.when_room(room.set)
            await room.wait()
        self._promises[promise.number] = promise
        return Reservation(promise.number, worst_usd, worst_tokens)

    def settle(self, reservation: Reservation, usd: float, tokens: int) -> None:
        """See :class:`~evolve.llm.budget.BudgetGate`."""
        self._budget.settle(self._promises.pop(reservation.number), Charge(dollars=usd, tokens=tokens))

    def _why(self, worst: Charge, reason: StopReason) -> str:
        spent, caps = self._budget.spent.charge, self._budget.caps
        if reason is StopReason.DOLLARS:
            return f"${spent.dollars:.4f} of ${caps.dollars} spent; the next call may cost up to ${worst.dollars:.4f}"
        if reason is StopReason.TOKENS:
            return f"{spent.tokens} of {caps.tokens} tokens used; the next call may use up to {worst.tokens}"
        return f"the cap on {reason.value} is met"


def stored_answer(call: ModelCall) -> StoredAnswer | None:
    """The answer that an answered call holds."""
    reply = call.reply
    if reply is None or reply.status is not CallStatus.ANSWERED or reply.completion is None:
        return None
    usage = Usage(
        input=reply.tokens_in,
        cached_input=reply.tokens_cached,
        cache_write=reply.tokens_cache_write,
        output=reply.tokens_out,
        reasoning=reply.tokens_reasoning,
        estimated=reply.estimated,
    )
    answer = Answer(
        text=reply.completion,
        finish=Finish(reply.finish),
        usage=usage,
        reasoning=reply.reasoning,
        reported_model=reply.reported_model,
        request_id=reply.request_id,
        quirks=reply.quirks,
    )
    return StoredAnswer(answer, ModelName.parse(call.request.model), call.request.operator)


def parameters_of(request: Request) -> dict[str, object]:
    """What a request asks for besides its text; unset values are left out."""
    names = ("max_output_tokens", "temperature", "effort", "thinking_tokens")
    return {name: getattr(request, name) for name in names if getattr(request, name) is not None}


def _request(start: CallStart) -> ModelRequest:
    request = start.request
    return ModelRequest(
        model=str(request.model),
        program=start.key.number,
        step=start.key.step,
        operator=start.operator,
        digest=request.digest,
        system=storable(request.system),
        messages=json.dumps([asdict(message) for message in request.messages]),
        parameters=json.dumps(parameters_of(request)),
        worst_dollars=start.worst_usd,
        worst_tokens=start.worst_tokens,
    )


def _reply(end: CallEnd) -> ModelReply:
    usage, answer, failure = end.usage, end.answer, end.failure
    return ModelReply(
        status=CallStatus.ANSWERED if answer else CallStatus.FAILED,
        completion=storable(answer.text) if answer else None,
        reasoning=storable(answer.reasoning) if answer else "",
        finish=answer.finish.value if answer else "",
        failure=failure.kind.value if failure else "",
        scope=failure.scope.value if failure else "",
        message=storable(failure.message) if failure else "",
        http_status=failure.http_status if failure else None,
        reported_model=storable(answer.reported_model) if answer else "",
        request_id=storable(answer.request_id) if answer else "",
        quirks=answer.quirks if answer else (),
        tokens_in=usage.input,
        tokens_cached=usage.cached_input,
        tokens_cache_write=usage.cache_write,
        tokens_out=usage.output,
        tokens_reasoning=usage.reasoning,
        estimated=usage.estimated,
        dollars=end.cost_usd,
        wall_s=end.seconds,
    )
