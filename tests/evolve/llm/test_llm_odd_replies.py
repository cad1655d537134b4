"""Replies that no real server gives: each costs its request at most, never the search, and is paid for."""

from __future__ import annotations

import contextlib
import json
import math

import pytest

from evolve.llm import cashier
from evolve.llm.errors import CallError, FailureKind
from evolve.llm.request import CallKey
from evolve.testing_llm.replies import Reply

KEY = CallKey(1, "propose")
TEXT = "An answer of some length, so that it is worth more than nothing. " * 3


def whole(text=TEXT, finish="stop", usage=None, **more):
    """A chat answer as one body."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"id": "1", "model": "m1", "choices": [choice], "usage": usage, **more}


def sent(body, status=200, **headers):
    """A reply of these very bytes."""
    return Reply(raw=(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode()))


async def outcome(pair, in_turn, reply, wire="chat", **patience):
    """How one call with this reply ended, after everything was booked."""
    async with pair(wire, in_turn(reply), patience={"attempts": 1, **patience}) as p:
        with contextlib.suppress(CallError):
            await p.client.complete(p.request(), KEY, "rewrite")
        (end,) = p.ends
        assert not p.purse._open, "nothing stays set aside"
    return end


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": [], "usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}",
        b"[" * 200_000,
        b'{"a":' + b"[" * 200_000,
        b'"text"',
        b"\xff\xfe",
    ],
    ids=["digits", "brackets", "brackets in an object", "a text", "no text"],
)
@pytest.mark.parametrize("media", ["application/json", "text/event-stream"])
async def test_what_cannot_be_parsed_is_a_broken_answer_and_booked(pair, in_turn, body, media):
    body = b"data: " + body + b"\n\n" if media == "text/event-stream" else body
    end = await outcome(pair, in_turn, sent(body, **{"content-type": media}))
    assert end.failure.kind is FailureKind.BROKEN_STREAM
    assert end.usage.estimated
    assert end.cost_usd > 0


@pytest.mark.parametrize("finish", [["stop"], {"a": 1}, 7, True])
async def test_an_odd_reason_for_the_end_is_none(pair, in_turn, finish):
    end = await outcome(pair, in_turn, sent(whole(finish=finish)))
    assert end.answer.text == TEXT


@pytest.mark.parametrize("content", [[{"type": ["text"], "text": "x"}], {"a": 1}, 5])
async def test_odd_content_is_no_text(pair, in_turn, content):
    end = await outcome(pair, in_turn, sent(whole(text=content)))
    assert end.answer.text == ""


async def test_an_odd_event_of_the_responses_api_is_passed_over(pair, in_turn):
    events = [{"type": ["x"]}, {"type": "response.output_text.delta", "delta": TEXT}, {"type": "response.completed"}]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    end = await outcome(pair, in_turn, sent(body, **{"content-type": "text/event-stream"}), "responses")
    assert end.answer.text == TEXT


async def test_half_a_character_is_replaced_as_it_arrives(pair, in_turn):
    odd = "\ud800 hello\x00 "
    end = await outcome(pair, in_turn, sent(whole(f"{odd}{TEXT}\udfff", model=odd, id=odd)))
    for text in (end.answer.text, end.answer.reported_model, end.answer.request_id):
        assert "\0" not in text
        assert text.encode().decode() == text
    assert TEXT in end.answer.text
    assert end.usage.estimated


async def test_half_a_character_in_an_error_can_be_shown(pair, in_turn):
    end = await outcome(pair, in_turn, sent({"error": {"message": "\ud800 no", "code": "\udc00"}}, 400))
    assert end.failure.message.encode() == b"? no"


@pytest.mark.parametrize(
    "date", ["Fri, 31 Dec 99999 23:59:59 GMT", "Fri, 31 Dec 2026 99:99:99 GMT", "Fri, 1e9 1e9 1e9"]
)
async def test_a_date_that_no_calendar_has_is_no_wish(pair, in_turn, date):
    end = await outcome(pair, in_turn, sent({}, 429, **{"retry-after": date}))
    assert end.failure.kind is FailureKind.RATE_LIMITED


@pytest.mark.parametrize(
    "error", [RuntimeError("\ud800 what nobody thought of"), RecursionError(), KeyError("x" * 999)]
)
async def test_whatever_else_goes_wrong_with_a_reply_ends_that_request_alone(pair, in_turn, monkeypatch, error):
    async def broken(*_):
        raise error

    monkeypatch.setattr(cashier, "exchange", broken)
    end = await outcome(pair, in_turn, Reply(TEXT))
    assert end.failure.kind is FailureKind.BROKEN_STREAM
    assert type(error).__name__ in end.failure.message
    assert len(end.failure.message) <= 400
    assert end.failure.message.encode()
    assert end.usage.estimated


ODD_COUNTS = [None, "1000", True, -1000, 10**30, 2**62, math.inf, math.nan, 1000.5, [1000], 0]


@pytest.mark.parametrize("odd", ODD_COUNTS, ids=repr)
@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens"])
async def test_a_count_that_cannot_be_true_is_replaced_by_our_own_and_marked(pair, in_turn, field, odd):
    usage = {"prompt_tokens": 700, "completion_tokens": 300, field: odd}
    end = await outcome(pair, in_turn, sent(whole(usage=usage)))
    assert end.answer is not None
    assert end.usage.estimated
    known = end.usage.output if field == "prompt_tokens" else end.usage.input
    ours = end.usage.input if field == "prompt_tokens" else end.usage.output
    assert known == (300 if field == "prompt_tokens" else 700)
    assert 10 < ours < 500
    assert end.cost_usd == pytest.approx((end.usage.input * 2.5 + end.usage.output * 10) / 1e6)


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        ("chat", {"total_tokens": 1200}),
        ("chat", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        ("responses", {"total_tokens": 1200}),
        ("anthropic", {"service_tier": "standard"}),
    ],
)
async def test_a_usage_without_the_counts_is_none(pair, in_turn, wire, usage):
    bodies = {
        "chat": whole(usage=usage),
        "responses": {"output": [{"content": [{"type": "output_text", "text": TEXT}]}], "usage": usage},
        "anthropic": {"content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", "usage": usage},
    }
    end = await outcome(pair, in_turn, sent(bodies[wire]), wire)
    assert end.answer.text == TEXT
    assert end.usage.estimated
    assert end.usage.input > 10
    assert end.usage.output >= len(TEXT) / 4


async def test_whole_numbers_written_as_fractions_count(pair, in_turn):
    usage = {"prompt_tokens": 1000.0, "completion_tokens": 200.0, "prompt_tokens_details": {"cached_tokens": 400.0}}
    end = await outcome(pair, in_turn, sent(whole(usage=usage)))
    assert (end.usage.input, end.usage.cached_input, end.usage.output) == (600, 400, 200)
    assert not end.usage.estimated


async def test_nothing_answered_may_count_nothing(pair, in_turn):
    end = await outcome(pair, in_turn, sent(whole(text="", usage={"prompt_tokens": 9, "completion_tokens": 0})))
    assert (end.usage.input, end.usage.output) == (9, 0)
    assert not end.usage.estimated
