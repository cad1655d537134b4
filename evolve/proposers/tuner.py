"""The proposer without a language model: it searches the tunable values of programs that exist."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from pydantic import Field

from evaluators.evaluation import Frozen, Status
from evolve.proposers.tpe import Observation, suggest
from evolve.proposers.tunables import Tunable, Tunables, find_tunables
from evolve.types import Program, Proposal, ProposeContext

_SUGGESTIONS = 4
_Values = Mapping[str, str]
_Candidate = tuple[str, _Values, tuple[int, ...]]
"""Operator, values, parents."""


class TunerSettings(Frozen):
    """How the tuner divides its proposals. What is left over goes to the estimator."""

    mutate: float = Field(default=0.15, ge=0, le=1)
    """Share of proposals that change one or two values of the parent."""
    crossover: float = Field(default=0.15, ge=0, le=1)
    """Share of proposals that take some values from another elite."""


class Tuner:
    """Searches the tunables of the parent it is given; programs of one structure share what was learned.

    Deterministic: the proposal follows from the context (with its ``rng``) and the set of programs told so far.
    """

    name = "tuner"
    reads_profiles = False

    def __init__(self, flag_choices: Sequence[Sequence[str]] = (), settings: TunerSettings | None = None):
        self._flag_choices = flag_choices
        self._settings = settings or TunerSettings()
        self._told: dict[str, dict[int, Observation]] = {}
        self._seen: dict[str, set[tuple[str, ...]]] = {}
        self._exhausted: set[str] = set()

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """Other values for the parent; ``None`` once every combination of its structure is known."""
        parent = self._tunables(context.parent)
        structure = parent.structure
        if parent.size <= 1 or structure in self._exhausted:
            return None
        seen = self._seen.setdefault(structure, set())
        seen |= {_key(o.values, parent) for o in self._observed(structure, context)} | {_key(parent.values, parent)}
        for operator, values, parents in self._candidates(parent, context):
            key = _key(values, parent)
            if key in seen:
                continue
            seen.add(key)
            source = parent.substitute(values)
            if not context.known(source):
                return self._proposal(context, source, operator, parents, _changes(parent.values, values))
        self._exhausted.add(structure)
        return None

    def tell(self, program: Program) -> None:
        """Remember what these values were worth. A failure of ours says nothing about them."""
        tunables = self._tunables(program)
        observation = _observation(program, tunables)
        if tunables and observation:
            structure = tunables.structure
            self._told.setdefault(structure, {})[program.number] = observation
            self._seen.setdefault(structure, set()).add(_key(observation.values, tunables))

    def _tunables(self, program: Program) -> Tunables:
        return find_tunables(program.source, program.language, self._flag_choices)

    def _observed(self, structure: str, context: ProposeContext) -> list[Observation]:
        """What was told, and what the context shows of other proposers' programs with the same structure."""
        observed = dict(self._told.get(structure, {}))
        for program in (context.parent, *context.inspirations):
            tunables = self._tunables(program)
            observation = _observation(program, tunables)
            if observation and tunables.structure == structure:
                observed[program.number] = observation
        return list(observed.values())

    def _candidates(self, parent: Tunables, context: ProposeContext) -> Iterator[_Candidate]:
        """The drawn operator's candidates, then the estimator's, then every combination from a random start."""
        rng, own = context.rng, (context.parent.number,)
        draw = rng.random()
        if draw < self._settings.mutate:
            yield "mutate", _mutate(parent, rng), own
        elif draw < self._settings.mutate + self._settings.crossover:
            yield from self._crossovers(parent, context)
        space = [tunable for tunable in parent if len(tunable.choices) > 1]
        legal = [
            o for o in self._observed(parent.structure, context) if all(o.values[t.name] in t.choices for t in space)
        ]
        for values in islice(suggest(space, legal, int(rng.integers(2**32))), _SUGGESTIONS):
            yield "tune", {**parent.values, **values}, own
        for values in _walk(parent, rng):
            yield "tune", values, own

    def _crossovers(self, parent: Tunables, context: ProposeContext) -> Iterator[_Candidate]:
        for index in context.rng.permutation(len(context.inspirations)):
            donor = context.inspirations[index]
            values = _cross(parent, self._tunables(donor).values, context.rng)
            if values is not None:
                yield "crossover", values, (context.parent.number, donor.number)

    def _proposal(
        self, context: ProposeContext, source: str, operator: str, parents: tuple[int, ...], changes: dict[str, str]
    ) -> Proposal:
        return Proposal(
            source=source,
            language=context.parent.language,
            operator=operator,
            proposer=self.name,
            parents=parents,
            note=", ".join(f"{name} {change}" for name, change in changes.items()),
            details={"changes": changes},
        )


def _observation(program: Program, tunables: Tunables) -> Observation | None:
    evaluation = program.verdict
    if evaluation is None or evaluation.status is Status.INFRA_ERROR:
        return None
    return Observation(program.number, tunables.values, evaluation.score)


def _key(values: _Values, tunables: Tunables) -> tuple[str, ...]:
    return tuple(values[tunable.name] for tunable in tunables)


def _changes(before: _Values, after: _Values) -> dict[str, str]:
    return {name: f"{before[name] or 'none'} -> {new or 'none'}" for name, new in after.items() if before[name] != new}


def _mutate(parent: Tunables, rng: np.random.Generator) -> dict[str, str]:
    """One or two values changed: to a neighbour where they are numbers in order, else to any other."""
    free = [tunable for tunable in parent if len(tunable.choices) > 1]
    count = min(len(free), 1 + int(rng.integers(2)))
    values = dict(parent.values)
    for index in rng.choice(len(free), size=count, replace=False):
        values[free[index].name] = _other(free[index], rng)
    return values


def _other(tunable: Tunable, rng: np.random.Generator) -> str:
    choices = [choice for choice in tunable.choices if choice != tunable.value]
    if tunable.ordered and tunable.value in tunable.choices:
        here = tunable.choices.index(tunable.value)
        choices = [tunable.choices[i] for i in (here - 1, here + 1) if 0 <= i < len(tunable.choices)]
    return choices[int(rng.integers(len(choices)))]


def _cross(parent: Tunables, donor: _Values, rng: np.random.Generator) -> dict[str, str] | None:
    """The parent's values with some of the donor's: each that differs with even odds, and at least one."""
    differing = [t.name for t in parent if donor.get(t.name, t.value) != t.value and donor[t.name] in t.choices]
    if not differing:
        return None
    taken = [name for name in differing if rng.random() < 0.5] or [differing[int(rng.integers(len(differing)))]]
    return {**parent.values, **{name: donor[name] for name in taken}}


def _walk(parent: Tunables, rng: np.random.Generator) -> Iterator[dict[str, str]]:
    """Every combination once, from a random start with a random stride."""
    size = parent.size
    position = int(rng.random() * size)
    stride = 1 + int(rng.random() * size)
    while math.gcd(stride, size) != 1:
        stride += 1
    for _ in range(size):
        yield _combination(parent, position)
        position = (position + stride) % size


def _combination(parent: Tunables, index: int) -> dict[str, str]:
    values: dict[str, str] = {}
    for tunable in parent:
        index, digit = divmod(index, len(tunable.choices))
        values[tunable.name] = tunable.choices[digit]
    return values
