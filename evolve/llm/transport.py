"""One request over the wire, by a provider's official SDK, and everything that can go wrong with it as a value."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from evolve.llm.allowance import Allowance
from evolve.llm.classify import MOST_MESSAGE, complaint_of, failure_of
from evolve.llm.clock import Clock
from evolve.llm.draft import Draft
from evolve.llm.errors import Failure, FailureKind, Scope
from evolve.llm.quirks import Complaint, Quirks
from evolve.llm.sdk import HttpReply, Sdk, SdkErrors
from evolve.llm.sse import MalformedStreamError, SseDecoder
from evolve.llm.wire import Wire, mapping, parse_object

_PART_OF_PATIENCE = 0.1


@dataclass(frozen=True)
class Deadlines:
    """Seconds; what remains of the call, and how long the server may be silent."""

    total_s: float
    first_byte_s: float
    silence_s: float


@dataclass(frozen=True)
class Refusal:
    """The server answered with an error status."""

    complaint: Complaint
    failure: Failure


@dataclass(frozen=True)
class Plan:
    """How a question is put on the wire."""

    sdk: Sdk
    wire: Wire
    body: dict[str, Any]
    quirks: Quirks
    output_tokens: int
    """The most that is allowed."""


async def exchange(plan: Plan, draft: Draft, deadlines: Deadlines, clock: Clock) -> Failure | Refusal | None:
    """Ask, and fill the draft with what comes back.

    Exceptions of the SDKs end here: they hold the request with its key, so none may be chained or kept.

    Returns:
        ``None`` when the body was read to its end; whether that is an answer is the draft's to say.
    """
    errors = plan.sdk.errors
    try:
        async with clock.timeout(deadlines.total_s):
            return await _converse(plan, draft, deadlines, clock)
    except TimeoutError:
        return Failure(FailureKind.DEADLINE, Scope.CALL, f"no whole answer within {deadlines.total_s:.0f} s")
    except errors.status as error:
        return _refusal(error)
    except (errors.connection, errors.transport) as error:
        return _broken_connection(error, errors)
    except MalformedStreamError as error:
        return Failure(FailureKind.BROKEN_STREAM, Scope.RETRY, str(error))


async def _converse(plan: Plan, draft: Draft, deadlines: Deadlines, clock: Clock) -> Failure | None:
    opening = plan.sdk.open(plan.body)
    try:
        async with clock.timeout(deadlines.first_byte_s):
            reply = await opening.__aenter__()
    except TimeoutError:
        return Failure(FailureKind.SILENCE, Scope.RETRY, f"no answer began within {deadlines.first_byte_s:.0f} s")
    try:
        return await _read(reply, plan, draft, deadlines, clock)
    finally:
        await opening.__aexit__(None, None, None)


async def _read(reply: HttpReply, plan: Plan, draft: Draft, deadlines: Deadlines, clock: Clock) -> Failure | None:
    media = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    pieces = aiter(reply.iter_bytes())
    if media == "application/json":
        # A whole answer, asked for or not: nothing arrives before all of it is there.
        whole = await _whole(pieces, Allowance(plan.output_tokens))
        plan.wire.absorb_whole(draft, parse_object(whole.decode("utf-8", "replace")))
        return None
    if media != "text/event-stream":
        page = (await anext(pieces, b""))[: 4 * MOST_MESSAGE].decode("utf-8", "replace")
        words = complaint_of(200, page).message
        return Failure(FailureKind.NOT_A_MODEL, Scope.RETRY, f"{media or 'no content type'} came back: {words}")
    return await _read_stream(pieces, plan, draft, deadlines, clock)


async def _whole(pieces: AsyncIterator[bytes], allowance: Allowance) -> bytes:
    whole = []
    async for piece in pieces:
        allowance.take_body(piece)
        whole.append(piece)
    return b"".join(whole)


async def _read_stream(
    pieces: AsyncIterator[bytes], plan: Plan, draft: Draft, deadlines: Deadlines, clock: Clock
) -> Failure | None:
    decoder, allowance = SseDecoder(), Allowance(plan.output_tokens)
    patience, since = deadlines.first_byte_s, clock.now()
    try:
        async with clock.timeout(patience) as limit:
            async for piece in pieces:
                now = clock.now()
                # Pieces come by the hundred: the timeout is moved only when a good part of it has passed.
                if patience != deadlines.silence_s or now - since > patience * _PART_OF_PATIENCE:
                    patience, since = deadlines.silence_s, now
                    clock.postpone(limit, patience)
                for event in decoder.feed(piece):
                    plan.wire.absorb(draft, event)
                allowance.take_stream(piece, draft)
                if draft.failure is not None:
                    return draft.failure
    except TimeoutError:
        return Failure(FailureKind.SILENCE, Scope.RETRY, f"the stream was silent for {patience:.0f} s")
    return None


def _refusal(error: Any) -> Refusal:
    body = error.body if error.body is not None else ""
    # The OpenAI SDK hands over the inner ``error`` object, Anthropic's the whole body.
    complaint = complaint_of(error.status_code, body)
    headers = {name.lower(): value for name, value in error.response.headers.items()}
    return Refusal(complaint, failure_of(complaint, mapping(headers), time.time()))


def _broken_connection(error: BaseException, errors: SdkErrors) -> Failure:
    """The innermost reason in words: the SDKs themselves say only ``Connection error.``."""
    where = f" ({_address(error)})" if isinstance(error, errors.connection) else ""
    unconnected = isinstance(error, errors.unconnected)
    while error.__cause__ is not None:
        error = error.__cause__
        unconnected = unconnected or isinstance(error, errors.unconnected)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if unconnected:
        return Failure(FailureKind.CONNECTION, Scope.RETRY, f"{words}{where}")
    return Failure(FailureKind.BROKEN_STREAM, Scope.RETRY, f"the connection broke: {words}")


def _address(error: Any) -> str:
    """Where an SDK wanted to connect to; of its address nothing but the host and port."""
    url = error.request.url
    return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")
