"""The next point of a small discrete space, by Optuna's tree-structured Parzen estimator through ask and tell.

Nothing is kept between calls: each builds its study from the observations it is given, so the same seed and the same
observations give the same point, also after a crash. Optuna is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evolve.proposers.tunables import Tunable

if TYPE_CHECKING:
    import optuna

_BEST_KEPT = 32
_LATEST_KEPT = 96
_STARTUP_TRIALS = 8


@dataclass(frozen=True)
class Observation:
    """What the judge said of one combination of values."""

    number: int
    """The program's; observations are taken in this order."""
    values: Mapping[str, str]
    score: float | None
    """``None`` where it failed: worse than any score."""


def suggest(space: Sequence[Tunable], observations: Sequence[Observation], seed: int) -> Iterator[dict[str, str]]:
    """Promising combinations without end, the first one to be preferred; they may repeat and may be known already."""
    import optuna  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=_STARTUP_TRIALS)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = {tunable.name: _distribution(tunable) for tunable in space}
    for observation in _kept(observations):
        study.add_trial(_trial(observation, space, distributions))
    while True:
        yield _written(study.ask(distributions).params, space)


def _kept(observations: Sequence[Observation]) -> list[Observation]:
    """The best and the latest: enough for the estimator, and a bound on what a suggestion costs."""
    ordered = sorted(observations, key=lambda o: o.number)
    if len(ordered) <= _BEST_KEPT + _LATEST_KEPT:
        return ordered
    scored = sorted((o for o in ordered if o.score is not None), key=lambda o: (-(o.score or 0.0), o.number))
    kept = {o.number: o for o in [*scored[:_BEST_KEPT], *ordered[-_LATEST_KEPT:]]}
    return [kept[number] for number in sorted(kept)]


def _distribution(tunable: Tunable) -> optuna.distributions.BaseDistribution:
    """Numbers in order are searched by their rank, so that the estimator knows which are neighbours."""
    from optuna.distributions import CategoricalDistribution, IntDistribution  # noqa: PLC0415

    if tunable.ordered:
        return IntDistribution(0, len(tunable.choices) - 1)
    return CategoricalDistribution(tunable.choices)


def _trial(
    observation: Observation,
    space: Sequence[Tunable],
    distributions: dict[str, optuna.distributions.BaseDistribution],
) -> optuna.trial.FrozenTrial:
    from optuna.trial import TrialState, create_trial  # noqa: PLC0415

    params = {
        t.name: t.choices.index(observation.values[t.name]) if t.ordered else observation.values[t.name] for t in space
    }
    # A pruned trial without values ranks below every complete one: that is what a failure is worth.
    state = TrialState.PRUNED if observation.score is None else TrialState.COMPLETE
    return create_trial(state=state, params=params, distributions=distributions, value=observation.score)


def _written(params: Mapping[str, object], space: Sequence[Tunable]) -> dict[str, str]:
    return {
        tunable.name: tunable.choices[rank] if isinstance(rank := params[tunable.name], int) else str(rank)
        for tunable in space
    }
