"""What a server does not take is learnt from its own answer, once."""

from __future__ import annotations

import pytest

from evolve.llm.errors import CallError, FailureKind
from evolve.llm.quirks import Complaint, Quirks, lesson
from evolve.llm.request import CallKey
from evolve.testing_llm.model_server import Manners
from evolve.testing_llm.replies import Reply

ALL_CHAT = {"max_completion_tokens", "temperature", "reasoning_effort", "stream", "stream_options"}


@pytest.mark.parametrize("dialect", ["openai", "pydantic"])
@pytest.mark.parametrize(
    ("refused", "instead"),
    [
        ("max_completion_tokens", {"max_tokens": 4096}),
        ("temperature", {}),
        ("reasoning_effort", {}),
        ("stream_options", {"stream": True}),
        ("stream", {}),
    ],
)
async def test_a_refused_parameter_is_left_out_or_renamed_from_then_on(pair, in_turn, dialect, refused, instead):
    manners = Manners(refuses={refused}, dialect=dialect)
    async with pair("chat", in_turn(Reply("fine")), manners) as p:
        request = p.request(temperature=0.5, effort="low")
        first = await p.client.complete(request, CallKey(1, "propose"), "rewrite")
        await p.client.complete(request, CallKey(2, "propose"), "rewrite")
        bodies = [a.body for a in p.server.asked]
    assert len(bodies) == 3, "one refusal, then never again"
    assert refused in bodies[0]
    assert all(refused not in b for b in bodies[1:])
    assert instead.items() <= bodies[2].items()
    assert first.text == "fine"
    assert first.quirks
    assert p.purse.spent_usd == pytest.approx(sum(e.cost_usd for e in p.ends if e.answer))


@pytest.mark.parametrize("wire", ["responses", "anthropic"])
async def test_other_wires_learn_too(pair, in_turn, wire):
    refused = {"responses": {"temperature", "reasoning"}, "anthropic": {"thinking", "output_config"}}[wire]
    async with pair(wire, in_turn(Reply("fine")), Manners(refuses=refused)) as p:
        answer = await p.client.complete(p.request(temperature=0.5, effort="low"), CallKey(1, "propose"), "rewrite")
    assert answer.text == "fine"
    assert not refused & p.server.asked[-1].body.keys()


async def test_several_quirks_of_one_server_are_learnt_in_one_call(pair, in_turn):
    refuses = {"max_completion_tokens", "temperature", "stream_options", "system"}
    async with pair("chat", in_turn(Reply("fine")), Manners(refuses=refuses)) as p:
        answer = await p.client.complete(p.request(temperature=0.5), CallKey(1, "propose"), "rewrite")
        await p.client.complete(p.request(), CallKey(2, "propose"), "rewrite")
    assert answer.text == "fine"
    assert len(p.server.asked) == len(refuses) + 2
    (turn,) = p.server.asked[-1].body["messages"]
    assert turn["role"] == "user"
    assert turn["content"].startswith("You optimise kernels.")


async def test_a_server_that_refuses_every_way_is_not_asked_for_ever(pair, in_turn):
    manners = Manners(refuses={"max_completion_tokens", "max_tokens"})
    async with pair("chat", in_turn(Reply("fine")), manners) as p:
        with pytest.raises(CallError) as caught:
            await p.client.complete(p.request(), CallKey(1, "propose"), "rewrite")
        assert len(p.server.asked) == 2
    assert caught.value.failure.kind is FailureKind.BAD_REQUEST


@pytest.mark.parametrize(
    ("complaint", "expected"),
    [
        (Complaint(400, "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) "
                        "value is supported.", "temperature", "unsupported_value"), Quirks(temperature=False)),
        (Complaint(400, "Unrecognized request argument supplied: reasoning_effort"), Quirks(effort=False)),
        (Complaint(400, "Your organization must be verified to stream this model.", "stream", "unsupported_value"),
         Quirks(stream=False)),
        (Complaint(400, "System role not supported"), Quirks(system="user")),
        (Complaint(400, "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens"),
         Quirks(max_output_tokens=64000)),
        (Complaint(400, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens"),
         Quirks(max_output_tokens=16384)),
        (Complaint(404, "This model is only supported in v1/responses and not in v1/chat/completions."),
         Quirks(responses_api=True)),
    ],
)  # fmt: skip
def test_words_that_servers_use(complaint, expected):
    assert lesson(complaint, ALL_CHAT, Quirks()) == expected


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
         '"output_config.effort" to control thinking behavior.', Quirks(), Quirks(thinking="adaptive")),
        ("adaptive thinking is not supported on this model", Quirks(), Quirks(thinking="enabled")),
        ("thinking is not supported on this model", Quirks(thinking="enabled"), Quirks(thinking="none", effort=False)),
        ("This model does not support the effort parameter.", Quirks(), Quirks(effort=False)),
    ],
)  # fmt: skip
def test_kinds_of_thinking_are_tried_in_turn(text, before, after):
    assert lesson(Complaint(400, text), {"thinking", "output_config"}, before) == after


@pytest.mark.parametrize(
    "complaint",
    [
        Complaint(400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
                  "messages", "context_length_exceeded"),
        Complaint(400, "Invalid prompt: your prompt was flagged", code="invalid_prompt"),
        Complaint(401, "temperature is not supported"),
        Complaint(500, "reasoning_effort is not supported"),
        Complaint(400, "the value of temperature must be between 0 and 1"),
    ],
)  # fmt: skip
def test_other_complaints_teach_nothing(complaint):
    assert lesson(complaint, ALL_CHAT, Quirks()) is None
