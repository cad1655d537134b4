"""A key is nowhere but in the request's header."""

from __future__ import annotations

import json
import logging
import pickle
import traceback

import pytest

from evolve.llm import transport
from evolve.llm.errors import CallError
from evolve.llm.provider import ApiKey
from evolve.llm.request import CallKey
from evolve.llm.secret import Redactor
from evolve.testing_llm.replies import Fault, Reply

KEY = CallKey(1, "propose")
WIRES = ("chat", "responses", "anthropic")
FAULTS = [f for f in Fault if f is not Fault.DRIP]


def _everything(error: BaseException) -> str:
    """All text that can be got out of an exception: itself, what it chains, what they hold."""
    seen: list[str] = ["".join(traceback.format_exception(error))]
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None:
            continue
        seen += [repr(one), str(one), repr(one.args), repr(vars(one))]
        for value in vars(one).values():
            # The header object hides credentials in its own repr; what it holds counts.
            seen.append(str(dict(getattr(value, "headers", {}))))
        todo += [one.__cause__, one.__context__]
    return "\n".join(seen)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", FAULTS)
async def test_no_failure_shows_the_key(pair, in_turn, caplog, wire, fault):
    caplog.set_level(logging.DEBUG)
    patience = {"attempts": 1, "silence_s": 20}
    async with pair(wire, in_turn(Reply("some text " * 20, fault=fault)), patience=patience) as p:
        with pytest.raises(CallError) as caught:
            await p.client.complete(p.request(), KEY, "rewrite")
        key = p.server.key
    outputs = [_everything(caught.value), caplog.text, repr(p.journal.starts), repr(p.journal.ends), repr(p.client)]
    assert caplog.records, "the SDKs log at this level; without logs the test would show nothing"
    assert key not in "\n".join(outputs)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_search_above_would_find_a_leak(pair, in_turn, monkeypatch, wire):
    caught: list[BaseException] = []
    refusal = transport._refusal
    monkeypatch.setattr(transport, "_refusal", lambda error: caught.append(error) or refusal(error))
    async with pair(wire, in_turn(Reply(fault=Fault.NO_SUCH_MODEL))) as p:
        with pytest.raises(CallError):
            await p.client.complete(p.request(), KEY, "rewrite")
        assert p.server.key in _everything(caught[0])


@pytest.mark.parametrize("wire", WIRES)
async def test_no_success_shows_the_key_even_if_the_server_repeats_it(pair, caplog, wire):
    caplog.set_level(logging.DEBUG)

    def parrot(asked):
        return Reply(f"You sent {asked.headers}", reasoning=str(asked.headers), model=asked.headers["authorization"])

    async with pair(wire, parrot) as p:
        answer = await p.client.complete(p.request(), KEY, "rewrite")
        key = p.server.key
    assert "[key]" in answer.text
    assert key not in repr(answer) + caplog.text + repr(p.journal.starts) + repr(p.journal.ends)


async def test_a_prompt_that_quotes_the_key_is_sent_without_it(pair, in_turn):
    async with pair("chat", in_turn(Reply("ok"))) as p:
        await p.client.complete(p.request(f"the build log says {p.server.key}!"), KEY, "rewrite")
        assert p.server.asked[0].prompt == "the build log says [key]!"
        assert p.server.key not in repr(p.journal.starts)


def test_a_key_object_neither_shows_nor_stores_its_value():
    key = ApiKey("sk-very-secret-value")
    assert "secret" not in f"{key} {key!r} {[key]}"
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_only_exact_key_values_are_replaced():
    redactor = Redactor.from_environment({"OPENAI_API_KEY": "sk-abcdefgh12345678", "X": "short"}, ["X"])
    mangled = "_ZN7cutlass4gemm6kernel13DefaultGemmIfNS_6layout8RowMajorE and bytes_per_token: 4096"
    assert redactor.clean(mangled) == mangled
    assert redactor.clean("short") == "short"
    assert redactor.clean("key=sk-abcdefgh12345678;") == "key=[key];"


def test_of_two_texts_that_make_up_a_key_one_does_not_keep_its_part():
    key = "sk-abcdefgh12345678"
    redactor = Redactor([("K", key)])
    assert redactor.clean_part(f"a {key} b") == "a [key] b"
    for cut in range(1, len(key)):
        head, tail = redactor.clean_part(f"key={key[:cut]}"), redactor.clean_part(f"{key[cut:]};")
        assert "[key]" in head + tail
        assert key not in head + tail
    for harmless in ("", "sk-", "ask-abc", "5678 times", "sk-abcdefgh1 and on", "and on gh12345678"):
        assert redactor.clean_part(harmless) == harmless


@pytest.mark.parametrize("padding", range(340, 420, 7))
async def test_a_key_is_found_before_a_servers_words_are_cut(pair, padding):
    def quoting(asked):
        key = asked.headers["authorization"].removeprefix("Bearer ")
        said = json.dumps({"error": {"message": f"{'x' * padding} {key} is wrong"}})
        page = f"<html><p>{'y' * padding} {key}</p></html>"
        replies = [(500, {}, said.encode()), (200, {"content-type": "text/html"}, page.encode())]
        return Reply(raw=replies[asked.number % 2])

    async with pair("chat", quoting, patience={"attempts": 2}) as p:
        with pytest.raises(CallError):
            await p.client.complete(p.request(), KEY, "rewrite")
        key, said = p.server.key, [end.failure.message for end in p.ends]
    assert len(said) == 2
    assert all(len(message) <= 400 for message in said)
    assert not any(key[:8] in message for message in said)


def test_keys_in_custom_headers_count_as_keys():
    redactor = Redactor.from_environment({"OPENAI_CUSTOM_HEADERS": "X-Proxy-Auth: topsecretvalue\nA: b"}, [])
    assert redactor.clean("topsecretvalue") == "[key]"
