"""A run goes on while any model answers, learns which pays, and pauses when none does."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from evolve.llm.bandit import Arm, FixedWeights, GainPerCost, Reward
from evolve.llm.breaker import Breakers, BreakerSettings
from evolve.llm.ensemble import Ensemble, Question, make_policy
from evolve.llm.errors import AllModelsDownError, CallError, Failure, FailureKind, Scope
from evolve.llm.request import CallKey, Message
from evolve.llm.settings import LlmSettings, ModelName, ModelSettings
from evolve.llm.throttle import Pause
from evolve.testing_llm.replies import Fault, Reply

A, B = ModelName("local", "m1"), ModelName("second", "m1")
DOWN = Failure(FailureKind.SERVER_ERROR, Scope.RETRY, "500")


class HandClock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


def _breakers(**settings) -> tuple[Breakers, HandClock]:
    clock = HandClock()
    return Breakers((A, B), clock, BreakerSettings(**{"failures": 2, "first_rest_s": 60, **settings})), clock


def _fail(breakers: Breakers, model: ModelName, times: int, failure: Failure = DOWN) -> None:
    for _ in range(times):
        breakers.chosen(model)
        breakers.failed(model, failure)


def test_a_model_rests_after_failures_in_a_row_and_one_call_goes_first_afterwards():
    breakers, clock = _breakers()
    _fail(breakers, A, 2)
    assert breakers.available() == (B,)
    clock.time = 61
    assert breakers.available() == (A, B)
    breakers.chosen(A)
    assert breakers.available() == (B,)
    breakers.succeeded(A)
    assert breakers.available() == (A, B)


def test_rests_grow_while_the_first_call_after_them_fails():
    breakers, clock = _breakers()
    _fail(breakers, A, 2)
    clock.time = 61
    _fail(breakers, A, 1)
    clock.time = 61 + 100
    assert breakers.available() == (B,)
    clock.time = 61 + 121
    assert breakers.available() == (A, B)


def test_failures_with_a_success_between_do_not_count_as_in_a_row():
    breakers, _ = _breakers()
    for _ in range(5):
        _fail(breakers, A, 1)
        breakers.succeeded(A)
    assert breakers.available() == (A, B)


def test_a_request_that_is_itself_at_fault_says_nothing_of_the_model():
    breakers, _ = _breakers()
    _fail(breakers, A, 9, Failure(FailureKind.TOO_LONG, Scope.CALL, "too long"))
    assert breakers.available() == (A, B)


def test_many_calls_failing_at_once_make_one_rest():
    breakers, clock = _breakers()
    for _ in range(50):
        breakers.failed(A, DOWN)
    clock.time = 61
    assert A in breakers.available()


def _decline(breakers: Breakers, model: ModelName, times: int) -> None:
    for _ in range(times):
        breakers.chosen(model)
        breakers.succeeded(model)
        breakers.declined(model, "the model declined: 'No.'")


def test_a_model_that_only_declines_rests_and_longer_each_time():
    breakers, clock = _breakers()
    _decline(breakers, A, 2)
    assert breakers.available() == (B,)
    clock.time = 61
    _decline(breakers, A, 1)
    clock.time = 61 + 119
    assert breakers.available() == (B,)
    clock.time = 61 + 121
    assert breakers.available() == (A, B)
    _decline(breakers, B, 2)
    _decline(breakers, A, 1)
    with pytest.raises(AllModelsDownError, match=r"local/m1: the model declined: 'No.'; second/m1: the model"):
        breakers.available()


def test_a_model_that_declines_now_and_then_goes_on():
    breakers, clock = _breakers()
    for _ in range(5):
        _decline(breakers, A, 1)
        breakers.worked(A)
    assert breakers.available() == (A, B)
    _decline(breakers, A, 2)
    clock.time = 61
    breakers.chosen(A)
    breakers.succeeded(A)
    assert breakers.available() == (B,), "an answer is not yet a program"
    breakers.worked(A)
    assert breakers.available() == (A, B)


def _pause(seconds: float) -> Pause:
    return Pause(seconds, Failure(FailureKind.RATE_LIMITED, Scope.RETRY, "slow down", 429, seconds))


def test_a_model_that_its_server_wants_left_alone_rests():
    breakers, _ = _breakers()
    assert breakers.available({A: _pause(2)}) == (B,)
    assert breakers.available({A: _pause(2), B: _pause(500)}) == (A,), "a brief pause is waited out"
    with pytest.raises(AllModelsDownError, match=r"429.*slow down") as caught:
        breakers.available({A: _pause(86_400), B: _pause(500)})
    assert caught.value.retry_in_s == 500
    assert caught.value.asked


def test_all_down_for_a_while_says_when_to_come_back():
    breakers, _ = _breakers()
    _fail(breakers, A, 2)
    _fail(breakers, B, 2)
    with pytest.raises(AllModelsDownError) as caught:
        breakers.available()
    assert caught.value.retry_in_s == 60
    assert set(caught.value.reasons) == {str(A), str(B)}


def test_an_expired_key_closes_the_provider_for_good_and_all_of_them_need_a_person():
    clock = HandClock()
    other = ModelName("local", "m2")
    breakers = Breakers((A, other), clock)
    breakers.failed(A, Failure(FailureKind.AUTHENTICATION, Scope.PROVIDER, "expired"))
    clock.time = 1e9
    with pytest.raises(AllModelsDownError, match="expired") as caught:
        breakers.available()
    assert caught.value.retry_in_s is None


def _ensemble(p, **settings) -> Ensemble:
    models = (ModelSettings(name=str(A)), ModelSettings(name=str(B), **settings))
    config = LlmSettings(models=models, choose="weights")
    return Ensemble(models, make_policy(config, {"diff": 1.0, "rewrite": 2.0}), Breakers((A, B), p.clock), p.client)


async def test_the_run_goes_on_with_the_other_provider_when_ones_key_expires(pair):
    def script(asked):
        return Reply(fault=Fault.EXPIRED_KEY) if asked.wire == "chat" else Reply("answer")

    rng = np.random.default_rng(0)
    question = Question("system", (Message("user", "prompt"),))
    async with pair("chat", script) as p:
        ensemble, answered, failed = _ensemble(p), 0, 0
        for number in range(20):
            arm = ensemble.choose(("diff", "rewrite"), rng)
            try:
                await ensemble.ask(arm, question, CallKey(number, "propose"))
                answered += 1
            except CallError:
                failed += 1
    assert (answered, failed) == (19, 1)


async def test_all_providers_failing_pauses_the_run_without_losing_what_was_paid(pair, in_turn):
    rng = np.random.default_rng(0)
    question = Question("system", (Message("user", "prompt"),))
    async with pair("chat", in_turn(Reply(fault=Fault.NO_CREDIT))) as p:
        ensemble = _ensemble(p)
        for number in range(2):
            with pytest.raises(CallError):
                await ensemble.ask(ensemble.choose(("diff",), rng), question, CallKey(number, "propose"))
        with pytest.raises(AllModelsDownError, match="no_credit"):
            ensemble.choose(("diff",), rng)
    assert len(p.ends) == 2


async def test_models_are_used_for_their_operators_only_while_there_is_a_choice(pair, in_turn):
    rng = np.random.default_rng(0)
    async with pair("chat", in_turn(Reply("x"))) as p:
        ensemble = _ensemble(p, operators=("rewrite",))
        arms = {ensemble.choose(("diff",), rng) for _ in range(50)}
        assert arms == {Arm("diff", A)}
        ensemble._breakers.failed(A, Failure(FailureKind.AUTHENTICATION, Scope.PROVIDER, "expired"))
        assert ensemble.choose(("diff",), rng) == Arm("diff", B)


async def test_for_an_operator_nobody_may_use_there_is_no_arm(pair, in_turn):
    models = (ModelSettings(name=str(A), operators=("rewrite",)),)
    async with pair("chat", in_turn(Reply("x"))) as p:
        ensemble = Ensemble(models, FixedWeights({}), Breakers((A,), p.clock), p.client)
        assert ensemble.choose(("diff",), np.random.default_rng(0)) is None


GOOD, DEAR, BAD = Arm("diff", A), Arm("rewrite", A), Arm("diff", B)
ARMS = (GOOD, DEAR, BAD)


def _play(policy: GainPerCost, rounds: int, seed: int = 0) -> list[Arm]:
    """GOOD and DEAR gain alike, DEAR at ten times the price; BAD gains nothing."""
    rng, drawn = np.random.default_rng(seed), []
    for _ in range(rounds):
        arm = policy.choose(ARMS, rng)
        gain = math.log(1.05) if arm is not BAD and rng.random() < 0.2 else 0.0
        policy.learn(arm, Reward(gain, 0.1 if arm is DEAR else 0.01, 1.0))
        drawn.append(arm)
    return drawn


@pytest.mark.parametrize("seed", range(5))
def test_the_bandit_comes_to_prefer_what_gains_most_for_its_cost(seed):
    policy = GainPerCost(dict.fromkeys(ARMS, 1.0), usd_per_device_s=0.001)
    late = _play(policy, 600, seed)[300:]
    assert late.count(GOOD) > 0.6 * len(late)
    assert late.count(DEAR) > 0
    assert late.count(BAD) > 0, "it keeps looking, because the search changes"


def test_device_time_counts_as_cost():
    policy = GainPerCost(dict.fromkeys((GOOD, DEAR), 1.0), usd_per_device_s=1.0, explore=0.0)
    for _ in range(50):
        policy.learn(GOOD, Reward(0.1, 0.01, 1.0))
        policy.learn(DEAR, Reward(0.1, 0.01, 60.0))
    rng = np.random.default_rng(0)
    assert {policy.choose((GOOD, DEAR), rng) for _ in range(50)} == {GOOD}


PRICED, UNPRICED = Arm("diff", A), Arm("diff", B)


def _shares(policy: GainPerCost, useful: dict[Arm, float], rounds: int = 2000) -> Counter[Arm]:
    """Every useful answer takes a second of the device and gains as often and as much; the others are wasted."""
    rng, drawn = np.random.default_rng(3), Counter()
    for _ in range(rounds):
        arm = policy.choose((PRICED, UNPRICED), rng)
        dollars = 0.01 if arm is PRICED else 0.0
        gain = math.log(1.05) if rng.random() < 0.3 else 0.0
        policy.learn(arm, Reward(gain, dollars, 1.0) if rng.random() < useful[arm] else Reward(0.0, dollars, 0.0))
        drawn[arm] += 1
    return drawn


def test_a_model_without_a_price_is_not_taken_for_free():
    alike = {PRICED: 1.0, UNPRICED: 1.0}
    free = _shares(GainPerCost(dict.fromkeys(alike, 1.0), usd_per_device_s=0.001), alike)
    assert free[UNPRICED] > 1500, "counted as free it would win"
    drawn = _shares(GainPerCost(dict.fromkeys(alike, 1.0), usd_per_device_s=0.001, priced=False), alike)
    assert 600 < drawn[UNPRICED] < 1400, "neither is preferred"


def test_without_prices_device_time_still_counts_and_waste_is_not_free():
    policy = GainPerCost({PRICED: 1.0, UNPRICED: 1.0}, usd_per_device_s=0.001, priced=False, explore=0.0)
    for _ in range(50):
        policy.learn(PRICED, Reward(0.1, 9.0, 1.0))
        policy.learn(UNPRICED, Reward(0.1, 0.0, 60.0))
    rng = np.random.default_rng(0)
    assert {policy.choose((PRICED, UNPRICED), rng) for _ in range(50)} == {PRICED}
    wasteful = {PRICED: 1.0, UNPRICED: 0.05}
    drawn = _shares(GainPerCost(dict.fromkeys(wasteful, 1.0), usd_per_device_s=0.001, priced=False), wasteful)
    assert drawn[PRICED] > 1500


def test_before_any_success_the_weights_decide():
    policy = GainPerCost({GOOD: 3.0, DEAR: 1.0, BAD: 0.0}, usd_per_device_s=0.001)
    rng = np.random.default_rng(0)
    drawn = [policy.choose(ARMS, rng) for _ in range(400)]
    assert drawn.count(BAD) == 0
    assert 0.65 < drawn.count(GOOD) / 400 < 0.85


def test_a_weight_of_zero_is_never_drawn_even_if_it_paid():
    policy = GainPerCost({GOOD: 1.0, DEAR: 0.0}, usd_per_device_s=0.001)
    policy.learn(DEAR, Reward(1.0, 0.0, 0.0))
    rng = np.random.default_rng(0)
    assert {policy.choose((GOOD, DEAR), rng) for _ in range(100)} == {GOOD}


def test_the_same_history_and_seed_draw_the_same_arms():
    first = _play(GainPerCost(dict.fromkeys(ARMS, 1.0), 0.001), 200)
    again = _play(GainPerCost(dict.fromkeys(ARMS, 1.0), 0.001), 200)
    assert first == again
