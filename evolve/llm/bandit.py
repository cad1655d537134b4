"""Which operator to use with which model: fixed weights, or a bandit that learns what pays.

The bandit is Thompson sampling of gain per cost. A proposal gains the logarithm of the speed-up over its parent, most
gain nothing, so an arm's gain is modelled as a chance of success (a Beta posterior, sampled) times the mean gain of its
successes; its cost as a mean. Both means are shrunk towards those of all arms, so that a new arm is believed average.
Older results count less, because gains become rarer as a run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evolve.llm.settings import ModelName


@dataclass(frozen=True, order=True)
class Arm:
    """An operator with a model."""

    operator: str
    model: ModelName


@dataclass(frozen=True)
class Reward:
    """What came of one proposal."""

    gain: float
    """Logarithm of score over the parent's score; 0 for whatever failed or is no better."""
    dollars: float
    """Model calls, repairs and continuations included; 0 where the model has no price."""
    device_s: float
    """Device seconds its evaluation took."""


class ArmPolicy(Protocol):
    """Chooses arms and learns from what came of them."""

    def choose(self, arms: Sequence[Arm], rng: np.random.Generator) -> Arm:
        """One of these."""
        ...

    def learn(self, arm: Arm, reward: Reward) -> None:
        """Told once per judged proposal, in the same order when a run is resumed."""
        ...


class FixedWeights:
    """Draws in proportion to fixed weights; learns nothing."""

    def __init__(self, weights: Mapping[Arm, float]) -> None:
        self._weights = dict(weights)

    def choose(self, arms: Sequence[Arm], rng: np.random.Generator) -> Arm:
        """See :class:`ArmPolicy`."""
        return _draw(arms, self._weights, rng)

    def learn(self, arm: Arm, reward: Reward) -> None:
        """See :class:`ArmPolicy`."""


@dataclass
class _Record:
    tries: float = 0.0
    successes: float = 0.0
    gain: float = 0.0
    cost: float = 0.0


class GainPerCost:
    """Thompson sampling of gain per dollar, device time counted in dollars.

    Args:
        weights: prior weights; they decide alone at first, and an arm of weight 0 is never drawn.
        usd_per_device_s: what a second of the device is worth.
        priced: whether every model has a price. Where one has none, dollars say nothing of how models compare: they
            count for no arm, and what took nothing of the device costs as much as an average proposal, not nothing.
        explore: share of the draws that go by the weights whatever was learnt.
        memory: how much a result counts after one more of the same arm.
    """

    def __init__(
        self,
        weights: Mapping[Arm, float],
        usd_per_device_s: float,
        *,
        priced: bool = True,
        explore: float = 0.1,
        memory: float = 0.99,
    ) -> None:
        self._weights = dict(weights)
        self._priced = priced
        self._usd_per_device_s = usd_per_device_s
        self._explore = explore
        self._memory = memory
        self._records: dict[Arm, _Record] = {}

    def choose(self, arms: Sequence[Arm], rng: np.random.Generator) -> Arm:
        """See :class:`ArmPolicy`."""
        if rng.random() < self._explore or not any(r.successes for r in self._records.values()):
            return _draw(arms, self._weights, rng)
        everything = self._total()
        rates = [self._sampled_rate(arm, everything, rng) * (self._weights.get(arm, 0.0) > 0) for arm in arms]
        return arms[int(np.argmax(rates))]

    def learn(self, arm: Arm, reward: Reward) -> None:
        """See :class:`ArmPolicy`."""
        cost = self._cost(reward)
        record = self._records.setdefault(arm, _Record())
        for name in ("tries", "successes", "gain", "cost"):
            setattr(record, name, getattr(record, name) * self._memory)
        record.tries += 1
        record.successes += reward.gain > 0
        record.gain += max(0.0, reward.gain)
        record.cost += cost

    def _cost(self, reward: Reward) -> float:
        device = reward.device_s * self._usd_per_device_s
        if self._priced:
            return reward.dollars + device
        if reward.device_s:
            return device
        before = self._total()
        return before.cost / before.tries if before.tries else 0.0

    def _total(self) -> _Record:
        records = self._records.values()
        return _Record(
            tries=sum(r.tries for r in records),
            successes=sum(r.successes for r in records),
            gain=sum(r.gain for r in records),
            cost=sum(r.cost for r in records),
        )

    def _sampled_rate(self, arm: Arm, everything: _Record, rng: np.random.Generator) -> float:
        record = self._records.get(arm, _Record())
        chance = (everything.successes + 1) / (everything.tries + 2)
        success = rng.beta(2 * chance + record.successes, 2 * (1 - chance) + record.tries - record.successes)
        gain = (record.gain + everything.gain / everything.successes) / (record.successes + 1)
        cost = (record.cost + everything.cost / everything.tries) / (record.tries + 1)
        return float(success * gain / max(cost, 1e-9))


def _draw(arms: Sequence[Arm], weights: Mapping[Arm, float], rng: np.random.Generator) -> Arm:
    shares = np.array([weights.get(arm, 0.0) for arm in arms])
    if shares.sum() <= 0:
        shares = np.ones(len(arms))
    return arms[int(rng.choice(len(arms), p=shares / shares.sum()))]
