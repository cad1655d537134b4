"""Several models as one: choose an operator and a model, ask, and go on while any of them answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evolve.llm.answer import Answer
from evolve.llm.bandit import Arm, ArmPolicy, FixedWeights, GainPerCost
from evolve.llm.breaker import Breakers
from evolve.llm.client import ModelClient
from evolve.llm.errors import CallError
from evolve.llm.request import CallKey, Message, Request
from evolve.llm.settings import LlmSettings, ModelName, ModelSettings
from evolve.types import StopReason

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Question:
    """A prompt that any model may be asked."""

    system: str
    messages: tuple[Message, ...]


class Ensemble:
    """The models of a run, and who is asked what."""

    def __init__(
        self, models: Sequence[ModelSettings], policy: ArmPolicy, breakers: Breakers, client: ModelClient
    ) -> None:
        self._models = {ModelName.parse(m.name): m for m in models}
        self._policy = policy
        self._breakers = breakers
        self._client = client

    def choose(self, operators: Iterable[str], rng: np.random.Generator, without: Collection[Arm] = ()) -> Arm | None:
        """An operator, out of those that fit the parent at hand, with a model that is well.

        Args:
            operators: those that fit.
            rng: what is drawn with.
            without: arms that are of no use here.

        Returns:
            ``None`` where the configuration has no arm for these operators, or no other is left.

        Raises:
            AllModelsDownError: no model is; the run should pause.
        """
        operators = tuple(operators)
        allowed = _arms(self._models, operators)
        if not allowed:
            return None
        well = self._breakers.available(self._client.pauses())
        arms = [arm for arm in allowed if arm.model in well]
        # Rather another model than its configuration wants for the operator, than none.
        arms = arms or [Arm(operator, model) for model in well for operator in operators]
        arms = [arm for arm in arms if arm not in without]
        if not arms:
            return None
        arm = self._policy.choose(arms, rng)
        self._breakers.chosen(arm.model)
        return arm

    @property
    def models(self) -> Collection[ModelName]:
        """The run's models."""
        return self._models.keys()

    def knows(self, model: ModelName) -> bool:
        """Whether it is one of the run's models."""
        return model in self._models

    def request(self, arm: Arm, question: Question) -> Request:
        """The question as it is put to the arm's model."""
        return self._client.clean(Request.to(self._models[arm.model], question.system, *question.messages))

    def holder(self, text: str) -> str | None:
        """The environment variable whose key stands in a text; ``None`` where none does."""
        return self._client.redactor.holder(text)

    def hopeless(self, arm: Arm, question: Question) -> StopReason | None:
        """The cap that asking would pass, even if nothing were in flight."""
        return self._client.hopeless(self.request(arm, question))

    def release(self, arm: Arm) -> None:
        """A chosen arm is not used."""
        self._breakers.abandoned(arm.model)

    async def ask(self, arm: Arm, question: Question, key: CallKey) -> Answer:
        """Ask the chosen model, and remember how it went.

        Raises:
            CallError: it did not answer; another arm may.
            CapError: the budget does not allow it.
        """
        self._breakers.chosen(arm.model)
        request = self.request(arm, question)
        heard = False
        try:
            answer = await self._client.complete(request, key, arm.operator)
            heard = True
            self._breakers.succeeded(arm.model)
        except CallError as error:
            heard = True
            self._breakers.failed(arm.model, error.failure)
            raise
        finally:
            if not heard:
                self._breakers.abandoned(arm.model)
        return answer

    def worked(self, arm: Arm) -> None:
        """A dialogue with the arm's model came to something."""
        self._breakers.worked(arm.model)

    def declined(self, arm: Arm, words: str) -> None:
        """The arm's model refused, or said nothing; ``words`` are what people are told of it."""
        self._breakers.declined(arm.model, words)

    @property
    def policy(self) -> ArmPolicy:
        """To be told what came of proposals."""
        return self._policy


def make_policy(settings: LlmSettings, operators: Mapping[str, float], priced: bool = True) -> ArmPolicy:
    """The configured policy over all operators and models.

    Args:
        settings: the ``[llm]`` section.
        operators: every operator with its weight.
        priced: whether every model has a price.
    """
    models = {ModelName.parse(model.name): model for model in settings.models}
    weights = {arm: models[arm.model].weight * operators[arm.operator] for arm in _arms(models, operators)}
    if settings.choose == "weights":
        return FixedWeights(weights)
    return GainPerCost(weights, settings.usd_per_device_hour / _SECONDS_PER_HOUR, priced=priced)


def _arms(models: Mapping[ModelName, ModelSettings], operators: Iterable[str]) -> list[Arm]:
    """Every operator with every model that is configured for it."""
    return [
        Arm(operator, name)
        for name, model in models.items()
        for operator in operators
        if not model.operators or operator in model.operators
    ]
