"""A circuit breaker per model: after failures in a row a model is left alone for a while, or for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evolve.llm.clock import Clock
from evolve.llm.errors import AllModelsDownError, Failure, Scope
from evolve.llm.settings import ModelName
from evolve.llm.throttle import Pause

_SOONEST_S = 1.0
"""Where all wait for what becomes of a first call after a rest, nobody knows how long."""
_BRIEF_S = 5.0
"""A pause so short is waited out where nobody else can be asked: a provider that counts by the minute asks for many."""


@dataclass(frozen=True)
class BreakerSettings:
    """When a model is left alone."""

    failures: int = 4
    """Calls in a row that failed after all their retries."""
    first_rest_s: float = 60.0
    """How long then; doubles each time the first call after a rest fails too."""
    longest_rest_s: float = 1800.0


@dataclass
class _State:
    in_a_row: int = 0
    declined: int = 0
    """Dialogues in a row in which it answered and gave nothing."""
    rests: int = 0
    until: float = 0.0
    probing: bool = False
    """After a rest one call goes first; the others wait for what becomes of it."""
    reason: str = ""
    for_good: bool = False


class Breakers:
    """What is known of every model's health. All models are healthy until they fail."""

    def __init__(self, models: tuple[ModelName, ...], clock: Clock, settings: BreakerSettings | None = None) -> None:
        self._settings = settings or BreakerSettings()
        self._clock = clock
        self._states = {model: _State() for model in models}

    def available(self, pauses: Mapping[ModelName, Pause] | None = None) -> tuple[ModelName, ...]:
        """The models that may be asked now.

        Args:
            pauses: what servers asked for. A model that is to be left alone rests.

        Raises:
            AllModelsDownError: none; says why, and when to come back.
        """
        pauses, now = pauses or {}, self._clock.now()
        well = tuple(m for m, s in self._states.items() if self._closed(s))
        brief = tuple(m for m in well if m not in pauses or pauses[m].until - now <= _BRIEF_S)
        open_to_calls = tuple(m for m in brief if m not in pauses) or brief
        if not open_to_calls:
            raise self._all_down(pauses)
        return open_to_calls

    def _all_down(self, pauses: Mapping[ModelName, Pause]) -> AllModelsDownError:
        now = self._clock.now()
        reasons, waits = {}, []
        for model, state in self._states.items():
            reasons[str(model)] = state.reason
            if state.for_good:
                continue
            rest_s = max(_SOONEST_S, state.until - now)
            asked_s = 0.0
            if model in pauses:
                asked_s = pauses[model].until - now
                reasons[str(model)] = str(pauses[model].failure)
            waits.append((max(rest_s, asked_s), asked_s >= rest_s))
        wait_s, asked = min(waits) if waits else (None, False)
        return AllModelsDownError(reasons, wait_s, asked=asked)

    def chosen(self, model: ModelName) -> None:
        """A call to this model is about to be made."""
        state = self._states[model]
        state.probing = state.rests > 0

    def succeeded(self, model: ModelName) -> None:
        """A call brought an answer. Of a model that declines, what came of the dialogue counts instead."""
        state = self._states[model]
        if state.declined:
            state.in_a_row = 0
        elif not state.for_good:
            self._states[model] = _State()

    def worked(self, model: ModelName) -> None:
        """A dialogue came to something, if not to a program."""
        if self._states[model].declined and not self._states[model].for_good:
            self._states[model] = _State()

    def declined(self, model: ModelName, words: str) -> None:
        """A dialogue came to nothing: the model refused, or said nothing. Each is paid for."""
        state = self._states[model]
        if state.for_good:
            return
        was_probe, state.probing = state.probing, False
        state.reason = words
        state.declined += 1
        self._rest(state, state.declined, was_probe=was_probe)

    def failed(self, model: ModelName, failure: Failure) -> None:
        """A call ended without an answer, retries included."""
        if failure.scope in {Scope.MODEL, Scope.PROVIDER}:
            self._close_for_good(model, failure)
            return
        state = self._states[model]
        was_probe, state.probing = state.probing, False
        if failure.scope is Scope.CALL:
            return  # the request's own fault says nothing of the model
        state.reason = str(failure)
        state.in_a_row += 1
        self._rest(state, state.in_a_row, was_probe=was_probe)

    def abandoned(self, model: ModelName) -> None:
        """A chosen call was not made, or was cancelled: it says nothing of the model."""
        self._states[model].probing = False

    def _rest(self, state: _State, in_a_row: int, *, was_probe: bool) -> None:
        if was_probe or (in_a_row >= self._settings.failures and state.until <= self._clock.now()):
            rest = min(self._settings.longest_rest_s, self._settings.first_rest_s * 2.0**state.rests)
            state.until = self._clock.now() + rest
            state.rests += 1

    def _closed(self, state: _State) -> bool:
        return not state.for_good and not state.probing and state.until <= self._clock.now()

    def _close_for_good(self, model: ModelName, failure: Failure) -> None:
        whole_provider = failure.scope is Scope.PROVIDER
        for other, state in self._states.items():
            if other == model or (whole_provider and other.provider == model.provider):
                state.for_good, state.reason, state.probing = True, str(failure), False
