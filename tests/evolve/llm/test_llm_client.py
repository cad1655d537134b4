"""Against a server that speaks the real wire formats, through the real SDKs."""

from __future__ import annotations

import asyncio

import pytest

from evolve.llm.answer import Finish
from evolve.llm.budget import Purse
from evolve.llm.cashier import Books
from evolve.llm.client import ModelClient
from evolve.llm.errors import CallError, FailureKind, MissingKeyError, Scope
from evolve.llm.journal import MemoryJournal
from evolve.llm.prices import PriceList
from evolve.llm.request import CallKey, Message, Request
from evolve.llm.settings import LlmSettings, ModelName, ModelSettings
from evolve.testing_llm.replies import Fault, Reply

WIRES = ("chat", "responses", "anthropic")
KEY = CallKey(7, "propose")
TEXT = "Here it is:\n```cpp\nint f() { return 1; } // naïve → better\n```\n" * 8


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_arrives_whole_with_the_servers_own_count(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(TEXT, reasoning="Let me think. " * 5))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
        billed = p.server.billed[0]
    assert answer.text == TEXT
    assert answer.finish is Finish.STOP
    assert "Let me think." in answer.reasoning
    assert (answer.usage.input, answer.usage.output) == (billed.input_tokens, billed.output_tokens)
    assert not answer.usage.estimated
    assert p.purse.spent_usd == pytest.approx((billed.input_tokens * 2 + billed.output_tokens * 10) / 1e6)
    assert [s.operator for s in p.journal.starts] == ["rewrite"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "fault",
    [
        Fault.RATE_LIMIT,
        Fault.RATE_LIMIT_AFTER,
        Fault.SERVER_ERROR,
        Fault.OVERLOADED,
        Fault.HTML,
        Fault.HTML_502,
        Fault.NOTHING,
        Fault.RESET,
        Fault.ERROR_EVENT,
        Fault.CUT,
        Fault.SILENCE,
    ],
)
async def test_a_passing_fault_costs_one_more_request_and_nothing_else(pair, in_turn, wire, fault):
    async with pair(wire, in_turn(Reply(TEXT, fault=fault), Reply(TEXT))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
        asked = len(p.server.asked)
    assert answer.text == TEXT
    assert asked == 2
    failed, served = p.ends
    assert failed.failure is not None
    assert failed.failure.scope is Scope.RETRY
    assert served.answer == answer
    assert p.purse.spent_usd == pytest.approx(sum(end.cost_usd for end in p.ends))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CUT, Fault.ERROR_EVENT, Fault.SILENCE, Fault.NOTHING])
async def test_what_a_broken_stream_used_is_booked_with_all_it_can_have_been(pair, in_turn, wire, fault):
    """Nobody sees how long a model reasoned before the stream broke."""
    async with pair(wire, in_turn(Reply(TEXT, fault=fault), Reply(TEXT))) as p:
        await p.client.complete(p.request("x" * 3000), KEY, "rewrite")
        billed = p.server.billed[0]
    broken = p.ends[0]
    assert broken.usage.estimated
    assert broken.usage.output == 4096
    assert broken.usage.input >= billed.input_tokens
    assert 4096 * 10 / 1e6 < broken.cost_usd <= p.journal.starts[0].worst_usd


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.HTML_502])
async def test_an_error_status_is_free(pair, in_turn, wire, fault):
    async with pair(wire, in_turn(Reply(fault=fault), Reply(TEXT))) as p:
        await p.client.complete(p.request(), KEY, "rewrite")
    assert p.ends[0].cost_usd == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_retry_after_is_honoured(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(fault=Fault.RATE_LIMIT_AFTER, retry_after="17"), Reply(TEXT))) as p:
        await p.client.complete(p.request(), KEY, "rewrite")
        slept = p.clock.slept
    assert 17 <= slept[0] <= 18.5


async def test_retry_after_may_be_a_date(pair, in_turn):
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    async with pair("chat", in_turn(Reply(fault=Fault.RATE_LIMIT_AFTER, retry_after=past), Reply(TEXT))) as p:
        await p.client.complete(p.request(), KEY, "rewrite")
        assert p.clock.slept[0] <= 1.5


async def test_one_429_makes_all_calls_to_the_model_wait(pair, in_turn):
    async with pair("chat", in_turn(Reply(fault=Fault.RATE_LIMIT_AFTER, retry_after="30"), Reply(TEXT))) as p:
        first = asyncio.create_task(p.client.complete(p.request(), KEY, "rewrite"))
        while not p.clock.slept:
            await asyncio.sleep(0)
        await p.client.complete(p.request(), CallKey(8, "propose"), "rewrite")
        await first
    assert len(p.clock.slept) >= 2
    assert p.clock.slept[1] > 25


async def test_a_wait_beyond_the_deadline_is_not_begun(pair, in_turn):
    async with pair("chat", in_turn(Reply(fault=Fault.RATE_LIMIT_AFTER, retry_after="5000"))) as p:
        with pytest.raises(CallError, match="rate_limited"):
            await p.client.complete(p.request(), KEY, "rewrite")
        assert p.clock.slept == []


async def test_after_a_long_retry_after_no_call_waits_and_the_model_is_said_to_rest(pair, in_turn):
    limited = in_turn(Reply(fault=Fault.RATE_LIMIT_AFTER, retry_after="86400"))
    async with pair("chat", limited, patience={"call_s": 1e9}) as p:
        for number in range(9):
            with pytest.raises(CallError, match=r"rate_limited.*rests for 86400 s"):
                await p.client.complete(p.request(), CallKey(number, "propose"), "rewrite")
        assert len(p.server.asked) == 1
        assert p.clock.slept == []
        assert [str(model) for model in p.client.pauses()] == ["local/m1"]
    assert len(p.journal.starts) == 1, "what was not sent is not written down"
    assert p.purse.spent_usd == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_waits_grow_without_retry_after_and_attempts_end(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(fault=Fault.SERVER_ERROR)), patience={"attempts": 5}) as p:
        with pytest.raises(CallError, match="server_error"):
            await p.client.complete(p.request(), KEY, "rewrite")
        assert len(p.server.asked) == 5
        slept = p.clock.slept
    assert [0.5 * 2**n <= s <= 2**n for n, s in enumerate(slept)] == [True] * 4


@pytest.mark.parametrize("wire", WIRES)
async def test_a_trickling_stream_ends_at_the_deadline_of_the_call(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(TEXT, fault=Fault.DRIP)), patience={"call_s": 40, "silence_s": 30}) as p:
        with pytest.raises(CallError) as caught:
            await p.client.complete(p.request(), KEY, "rewrite")
        assert len(p.server.asked) == 1
    assert caught.value.failure.kind is FailureKind.DEADLINE
    assert p.ends[0].usage.output == 4096


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "reply", [Reply("z" * 3_000_000), Reply(reasoning="z" * 3_000_000), Reply("z" * 3_000_000, streamed=False)]
)
async def test_an_answer_far_beyond_the_tokens_allowed_is_broken_off(pair, in_turn, wire, reply):
    async with pair(wire, in_turn(reply), patience={"attempts": 1}) as p:
        with pytest.raises(CallError, match="broken_stream: far more came than the tokens that were allowed"):
            await p.client.complete(p.request(), KEY, "rewrite")
    assert p.ends[0].usage.output == 4096


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_of_all_the_tokens_allowed_is_taken(pair, in_turn, wire, streamed):
    text = "→ 16 bytes \\ \n" * 4096
    async with pair(wire, in_turn(Reply(text, streamed=streamed))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
    assert answer.text == text


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.EXPIRED_KEY, (FailureKind.AUTHENTICATION, Scope.PROVIDER)),
        (Fault.NO_CREDIT, (FailureKind.NO_CREDIT, Scope.PROVIDER)),
        (Fault.NO_SUCH_MODEL, (FailureKind.NO_SUCH_MODEL, Scope.MODEL)),
    ],
)
async def test_what_will_not_pass_is_asked_once(pair, in_turn, wire, fault, expected):
    async with pair(wire, in_turn(Reply(fault=fault))) as p:
        with pytest.raises(CallError) as caught:
            await p.client.complete(p.request(), KEY, "rewrite")
        assert len(p.server.asked) == 1
    assert (caught.value.failure.kind, caught.value.failure.scope) == expected
    assert p.purse.spent_usd == 0


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("finish", "expected"), [("length", Finish.LENGTH), ("refusal", Finish.REFUSAL)])
async def test_truncated_and_refused_answers_are_answers_and_are_paid(pair, in_turn, wire, finish, expected):
    async with pair(wire, in_turn(Reply(TEXT, finish=finish))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
    assert answer.finish is expected
    assert p.purse.spent_usd > 0


@pytest.mark.parametrize("wire", WIRES)
async def test_an_empty_answer_is_an_answer(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(choices=False))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
        assert len(p.server.asked) == 1
    assert answer.text == ""


@pytest.mark.parametrize("wire", WIRES)
async def test_tokens_the_server_does_not_count_are_estimated_and_say_so(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(TEXT, usage=False))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
        billed = p.server.billed[0]
    assert answer.usage.estimated
    assert billed.output_tokens <= answer.usage.output <= 2 * billed.output_tokens
    assert p.purse.spent_usd > 0


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_in_one_piece_is_taken_too(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(TEXT, streamed=False))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
    assert answer.text == TEXT
    assert not answer.usage.estimated


@pytest.mark.parametrize("wire", WIRES)
async def test_the_model_that_really_answered_is_recorded(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(TEXT, model="some-other-model"))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
    assert answer.reported_model == "some-other-model"


async def test_inline_thinking_of_open_models_is_no_part_of_the_answer(pair, in_turn):
    async with pair("chat", in_turn(Reply("<think>\n```cpp\nwrong\n```\n</think>\n\nright"))) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
    assert answer.text.strip() == "right"
    assert "wrong" in answer.reasoning


async def test_a_stored_answer_is_not_paid_for_again(pair, in_turn):
    async with pair("chat", in_turn(Reply(TEXT))) as p:
        first = await p.client.complete(p.request(), KEY, "rewrite")
        again = await p.client.complete(p.request(), KEY, "rewrite")
        assert len(p.server.asked) == 1
    assert again == first


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cancelled_call_is_booked_with_what_it_used(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(TEXT, fault=Fault.SILENCE)), patience={"silence_s": 150}) as p:
        task = asyncio.create_task(p.client.complete(p.request(), KEY, "rewrite"))
        while not p.server.billed:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    (end,) = p.ends
    assert end.failure.kind is FailureKind.CANCELLED
    assert end.usage.output == 4096
    assert p.purse.spent_usd == end.cost_usd


async def test_a_conversation_goes_out_in_order_with_the_system_text_first(pair, in_turn):
    async with pair("chat", in_turn(Reply(TEXT))) as p:
        turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
        request = Request.to(ModelSettings(name="local/m1"), "s", *turns)
        await p.client.complete(request, KEY, "repair")
        sent = p.server.asked[0].body["messages"]
    assert [(m["role"], m["content"]) for m in sent] == [
        ("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"),
    ]  # fmt: skip


async def test_anthropic_is_told_to_cache_the_stable_prefix_and_to_think(pair, in_turn):
    async with pair("anthropic", in_turn(Reply(TEXT))) as p:
        await p.client.complete(p.request(thinking_tokens=2048, temperature=0.3), KEY, "rewrite")
        body = p.server.asked[0].body
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert "temperature" not in body, "the API refuses a temperature beside thinking"


@pytest.mark.parametrize("wire", ["chat", "anthropic"])
async def test_a_server_that_is_not_there_is_a_connection_failure_and_free_and_named(pair, in_turn, wire):
    async with pair(wire, in_turn(Reply(TEXT)), patience={"attempts": 2}) as p:
        await p.server.__aexit__(None, None, None)
        with pytest.raises(CallError, match=rf"connection: .*\({p.server.url}\)$"):
            await p.client.complete(p.request(), KEY, "rewrite")
    assert len(p.ends) == 2
    assert p.purse.spent_usd == 0


@pytest.mark.parametrize(
    ("name", "environment", "words"),
    [
        ("openai/gpt-x", {}, "OPENAI_API_KEY"),
        ("anthropic/claude-x", {"ANTHROPIC_API_KEY": " "}, "ANTHROPIC_API_KEY"),
        ("openai/gpt-x", {"OPENAI_API_KEY": "sk-with\nnewline-in-it"}, "characters that no key has"),
    ],
)
async def test_a_missing_or_mangled_key_is_the_users_mistake_in_one_line(name, environment, words):
    client = ModelClient(LlmSettings(), environment, Books(MemoryJournal(), Purse(), PriceList({})))
    request = Request(ModelName.parse(name), "", (Message("user", "x"),), 1000)
    with pytest.raises(MissingKeyError, match=words) as caught:
        await client.complete(request, KEY, "rewrite")
    assert "\n" not in str(caught.value)
    assert "newline-in-it" not in str(caught.value)


def test_keys_are_missed_before_a_run_starts_not_during_it():
    models = (ModelSettings(name="ollama/m"), ModelSettings(name="openai/gpt-x"))
    client = ModelClient(LlmSettings(models=models), {}, Books(MemoryJournal(), Purse(), PriceList({})))
    with pytest.raises(MissingKeyError, match="OPENAI_API_KEY"):
        client.prepare()
