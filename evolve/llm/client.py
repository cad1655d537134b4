"""Asking a model until there is an answer or a reason why not: retries, and quirks learnt on the way."""

from __future__ import annotations

import gc
import random
from collections.abc import Mapping
from dataclasses import replace

import tenacity

from evolve.llm.answer import Answer
from evolve.llm.cashier import Books, Call, Cashier
from evolve.llm.clock import Clock, SystemClock
from evolve.llm.errors import CallError, Failure, Scope
from evolve.llm.provider import endpoint, provider_settings, redactor
from evolve.llm.quirks import QuirkBook, Quirks, lesson
from evolve.llm.request import CallKey, Message, Request
from evolve.llm.sdk import Sdk, connect
from evolve.llm.settings import LlmSettings, ModelName, WireName
from evolve.llm.throttle import LONGEST_PAUSE_S, Pause, Throttle
from evolve.llm.transport import Plan, Refusal
from evolve.llm.wire import Wire
from evolve.llm.wire_anthropic import AnthropicWire
from evolve.llm.wire_chat import ChatWire
from evolve.llm.wire_responses import ResponsesWire
from evolve.types import StopReason


class ModelClient:
    """Asks the models of every configured provider. Make one per run, and close it.

    Args:
        settings: the ``[llm]`` section.
        environment: where keys are read from, normally ``os.environ``.
        books: journal, budget and prices.
        clock: time; tests let it run faster.
        jitter: spreads the waits between attempts.

    Attributes:
        redactor: knows the keys.
    """

    def __init__(
        self,
        settings: LlmSettings,
        environment: Mapping[str, str],
        books: Books,
        clock: Clock | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._journal = books.journal
        self._clock = clock or SystemClock()
        self._jitter = jitter or random.Random()
        self._quirks = QuirkBook()
        self._sdks: dict[str, tuple[Sdk, WireName]] = {}
        self._throttles: dict[str, Throttle] = {}
        self.redactor = redactor(settings, environment)
        self._cashier = Cashier(books, settings.patience, self.redactor, self._clock)

    def prepare(self) -> None:
        """Make the clients of all configured models now: their SDKs take seconds to import.

        What is imported then lives as long as the process, so the garbage collector is told to pass it over: going
        through the SDKs' hundred thousands of objects again and again would cost each proposal milliseconds.

        Raises:
            UsageError: an unknown provider, or a key that the environment lacks.
        """
        for model in self._settings.models:
            self._connected(ModelName.parse(model.name))
        gc.freeze()

    def hopeless(self, request: Request) -> StopReason | None:
        """The cap on money or tokens that a request would pass, even if nothing were in flight."""
        return self._cashier.hopeless(request)

    def pauses(self) -> Mapping[ModelName, Pause]:
        """The models that their servers want left alone for a while."""
        return {model: pause for throttle in self._throttles.values() for model, pause in throttle.pauses().items()}

    async def complete(self, request: Request, key: CallKey, operator: str) -> Answer:
        """The model's answer; a stored one where this call was made before.

        Raises:
            CallError: there is none, after whatever retries it was worth.
            CapError: the budget does not allow the call.
            UsageError: unknown provider, or its key is missing.
        """
        stored = self._journal.recall(key)
        if stored is not None:
            return stored.answer
        call = Call(self.clean(request), key, operator)
        retrying = tenacity.AsyncRetrying(
            sleep=self._clock.sleep,
            retry=tenacity.retry_if_result(_worth_another),
            wait=self._wait,
            stop=lambda state: self._is_last(call, state),
            retry_error_callback=_last_outcome,
        )
        outcome: Answer | Failure = await retrying(self._attempt, call)
        if isinstance(outcome, Failure):
            raise CallError(str(request.model), outcome)
        return outcome

    async def close(self) -> None:
        """Close all connections."""
        sdks, self._sdks = list(self._sdks.values()), {}
        for sdk, _ in sdks:
            await sdk.close()

    async def _attempt(self, call: Call) -> Answer | Failure:
        """Ask once; and at once again, differently, while the server names a parameter that it does not take."""
        model = call.request.model
        throttle = self._throttle(model)
        quirks, tried = self._quirks.of(model), set[Quirks]()
        while True:
            tried.add(quirks)
            plan = self._plan(call.request, quirks)
            outcome = await self._cashier.ask(call, plan, throttle)
            if isinstance(outcome, Answer):
                if outcome.usage.estimated and not quirks.no_usage:
                    self._quirks.remember(model, replace(quirks, no_usage=True))
                return outcome
            failure = outcome.failure if isinstance(outcome, Refusal) else outcome
            if not isinstance(outcome, Refusal):
                return failure
            if failure.retry_after_s is not None:
                failure = self._with_rest(failure, failure.retry_after_s)
                throttle.pause(model, failure)
            sent = plan.body.keys() | plan.body.get("extra_body", {}).keys()
            better = lesson(outcome.complaint, plan.wire.optional & sent, quirks)
            if better is None or better in tried:
                return failure
            self._quirks.remember(model, better)
            quirks = better

    def _plan(self, request: Request, quirks: Quirks) -> Plan:
        sdk, spoken = self._connected(request.model)
        wire: Wire
        if spoken == "anthropic":
            wire = AnthropicWire()
        else:
            wire = ResponsesWire() if quirks.responses_api or spoken == "responses" else ChatWire()
        return Plan(sdk, wire, wire.body(request, quirks), quirks, request.max_output_tokens)

    def _connected(self, model: ModelName) -> tuple[Sdk, WireName]:
        if model.provider not in self._sdks:
            where = endpoint(self._settings, model, self._environment)
            self._sdks[model.provider] = connect(where), where.wire
        return self._sdks[model.provider]

    def _throttle(self, model: ModelName) -> Throttle:
        if model.provider not in self._throttles:
            self._throttles[model.provider] = Throttle(provider_settings(self._settings, model), self._clock)
        return self._throttles[model.provider]

    def _wait(self, state: tenacity.RetryCallState) -> float:
        """What the server asks for, else doubling with jitter; a little spread keeps 200 calls from one instant."""
        patience = self._settings.patience
        asked = _last_failure(state).retry_after_s
        if asked is not None:
            return asked + self._jitter.uniform(0.0, patience.backoff_s)
        most = min(patience.backoff_most_s, patience.backoff_s * 2.0 ** (state.attempt_number - 1))
        return self._jitter.uniform(0.5, 1.0) * most

    def _is_last(self, call: Call, state: tenacity.RetryCallState) -> bool:
        if state.attempt_number >= self._settings.patience.attempts:
            return True
        asked = _last_failure(state).retry_after_s
        if asked is not None and self._is_rest(asked):
            return True
        now = self._clock.now()
        left = self._settings.patience.call_s if call.deadline is None else call.deadline - now
        return state.upcoming_sleep >= left

    def _is_rest(self, asked_s: float) -> bool:
        """Whether the server wants no short wait but a rest, in which others are to be asked."""
        return asked_s > self._settings.patience.backoff_most_s

    def _with_rest(self, failure: Failure, asked_s: float) -> Failure:
        if not self._is_rest(asked_s):
            return failure
        rest_s = min(asked_s, LONGEST_PAUSE_S)
        return replace(failure, message=f"{failure.message}; the model rests for {rest_s:.0f} s")

    def clean(self, request: Request) -> Request:
        """The request as it is sent: a prompt holds no key, whatever it quotes."""
        clean = self.redactor.clean
        messages = tuple(Message(m.role, clean(m.text)) for m in request.messages)
        return replace(request, system=clean(request.system), messages=messages)


def _worth_another(outcome: Answer | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.scope is Scope.RETRY


def _last_outcome(state: tenacity.RetryCallState) -> Answer | Failure:
    assert state.outcome is not None  # tenacity calls this after an attempt
    outcome: Answer | Failure = state.outcome.result()
    return outcome


def _last_failure(state: tenacity.RetryCallState) -> Failure:
    outcome = _last_outcome(state)
    assert isinstance(outcome, Failure)  # only failures are tried again
    return outcome
