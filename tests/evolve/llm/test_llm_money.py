"""Prices, caps and tallies."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.errors import UsageError
from evolve.llm.answer import Answer, Finish, Usage
from evolve.llm.bandit import Arm
from evolve.llm.budget import Purse
from evolve.llm.costs import tally
from evolve.llm.draft import worst_usage
from evolve.llm.errors import CapError, Failure, FailureKind, MissingPriceError, Scope
from evolve.llm.journal import CallEnd, CallStart
from evolve.llm.prices import Price, PriceList
from evolve.llm.request import CallKey, Message, Request
from evolve.llm.settings import ModelName, PriceSettings

MODEL = ModelName("openai", "gpt-5-mini")


def test_a_dollar_cap_refuses_to_start_without_a_price_in_one_line_that_says_what_to_write():
    prices = PriceList.load({})
    prices.require([MODEL])
    with pytest.raises(MissingPriceError) as caught:
        prices.require([MODEL, ModelName("vllm", "qwen3-coder")])
    text = str(caught.value)
    assert "\n" not in text
    assert '[llm.prices."vllm/qwen3-coder"]' in text
    assert "gpt-5-mini" not in text


def test_a_users_own_price_wins_and_free_is_a_price():
    own = {"openai/gpt-5-mini": PriceSettings(input=9, output=9), "ollama/qwen3": PriceSettings(input=0, output=0)}
    prices = PriceList.load(own)
    prices.require([ModelName("ollama", "qwen3")])
    assert prices.of(MODEL) == Price(9, 9, 9, 9)


def test_every_listed_price_is_sane():
    prices = PriceList.load({})
    for model, price in prices._prices.items():
        assert 0 < price.cached_input <= price.input <= price.cache_write <= price.output, model


def test_cost_counts_each_kind_of_token_at_its_own_price():
    price = Price(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5)
    usage = Usage(input=1_000_000, cached_input=2_000_000, cache_write=400_000, output=100_000, reasoning=50_000)
    assert price.cost(usage) == pytest.approx(2 + 1 + 1 + 1)


_COUNT = st.integers(0, 10**7)


@given(_COUNT, _COUNT, _COUNT, _COUNT)
def test_no_split_of_the_input_costs_more_than_the_worst_case(plain, cached, written, output):
    price = Price(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5)
    used = Usage(plain, cached, written, output)
    worst = Usage(plain + cached + written, 0, 0, output)
    assert price.cost(used) <= price.worst(worst) + 1e-12


@given(st.text(max_size=400), st.text(max_size=400))
def test_the_worst_case_covers_a_token_per_byte(system, prompt):
    request = Request(MODEL, system, (Message("user", prompt),), 1000)
    worst = worst_usage(request)
    assert worst.input >= len((system + prompt).encode())
    assert worst.output == 1000


@pytest.mark.parametrize("cap", [-1.0, math.inf, math.nan])
def test_caps_are_finite_and_not_negative(cap):
    with pytest.raises(UsageError, match="dollar cap"):
        Purse(usd_cap=cap)


async def test_a_call_waits_for_one_in_flight_and_goes_when_that_was_cheap():
    purse = Purse(usd_cap=1.0)
    first = await purse.reserve(0.8, 10)
    second = asyncio.create_task(purse.reserve(0.8, 10))
    await asyncio.sleep(0)
    assert not second.done()
    purse.settle(first, 0.1, 5)
    assert (await second).usd == 0.8


async def test_a_call_that_cannot_fit_is_refused_even_while_others_are_in_flight():
    purse = Purse(usd_cap=1.0, spent_usd=0.5)
    await purse.reserve(0.4, 1)
    with pytest.raises(CapError, match=r"\$0\.5000 of \$1\.0000"):
        await purse.reserve(0.6, 1)


async def test_a_waiting_call_is_refused_when_the_one_in_flight_was_dear():
    purse = Purse(token_cap=100)
    first = await purse.reserve(0.0, 60)
    second = asyncio.create_task(purse.reserve(0.0, 60))
    await asyncio.sleep(0)
    purse.settle(first, 0.0, 60)
    with pytest.raises(CapError, match="60 of 100 tokens"):
        await second


async def test_a_reservation_is_settled_once():
    purse = Purse()
    reservation = await purse.reserve(1.0, 1)
    purse.settle(reservation, 0.5, 1)
    with pytest.raises(KeyError):
        purse.settle(reservation, 0.5, 1)


def test_a_call_ends_with_an_answer_or_a_failure():
    with pytest.raises(ValueError, match="answer or with a failure"):
        CallEnd(None, None, Usage(), 0.0, 1.0)


def test_costs_are_tallied_by_operator_and_model_with_failed_calls():
    request = Request(MODEL, "", (Message("user", "x"),), 1000)
    answer = Answer("t", Finish.STOP, Usage(10, output=5))
    failure = Failure(FailureKind.BROKEN_STREAM, Scope.RETRY, "reset")
    calls = [
        (CallStart(CallKey(1, "propose"), 1, "diff", request, 1, 1),
         CallEnd(None, failure, Usage(10, output=2, estimated=True), 0.25, 1)),
        (CallStart(CallKey(1, "propose"), 2, "diff", request, 1, 1), CallEnd(answer, None, answer.usage, 0.5, 1)),
        (CallStart(CallKey(2, "propose"), 1, "rewrite", request, 1, 1), CallEnd(answer, None, answer.usage, None, 1)),
    ]  # fmt: skip
    sums = tally(calls)
    diff, rewrite = sums[Arm("diff", MODEL)], sums[Arm("rewrite", MODEL)]
    assert (diff.requests, diff.answers, diff.tokens, diff.usd, diff.estimated) == (2, 1, 27, 0.75, True)
    assert rewrite.unpriced
    assert diff.usd_per(3) == 0.25
    assert diff.usd_per(0) is None
