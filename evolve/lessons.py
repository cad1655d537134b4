"""What a run has learnt, counted from its own data: every lesson comes with the programs for and against it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from evaluators.evaluation import Status
from evolve.experience import Experience, Outcome
from evolve.prompts.context import Lesson

_LEAST = 2
"""Programs that must speak to something before it is called a lesson."""
_LEAST_OPERATOR = 4
_MOST_TUNABLES = 8
_MOST_GAINS = 5


def lessons(experience: Experience) -> tuple[Lesson, ...]:
    """The most useful first: what gained, what constants are worth, how each kind of change fared."""
    return (*_gains(experience), *_constants(experience), *_operators(experience))


def _gains(experience: Experience) -> list[Lesson]:
    """Changes in their author's words that made a program better than its parent."""
    by_note: dict[str, list[float]] = defaultdict(list)
    for outcome in experience.outcomes:
        change = experience.gain(outcome)
        if outcome.note and not outcome.changes and change is not None:
            by_note[outcome.note].append(change)
    found = [
        (sum(g for g in gains if g > 0), note, sum(g > 0 for g in gains), sum(g <= 0 for g in gains))
        for note, gains in by_note.items()
    ]
    best = sorted((f for f in found if f[2]), key=lambda f: -f[0])[:_MOST_GAINS]
    return [
        Lesson(f"This change gained {100 * math.expm1(total / better):.0f} % over the parent: {note}", better, worse)
        for total, note, better, worse in best
    ]


def _constants(experience: Experience) -> list[Lesson]:
    """Pairs of programs that differ in one constant."""
    better: Counter[tuple[str, str]] = Counter()
    worse: Counter[tuple[str, str]] = Counter()
    for outcome in experience.outcomes:
        change = experience.gain(outcome)
        if len(outcome.changes) != 1 or not change:
            continue
        ((name, words),) = outcome.changes.items()
        before, _, after = words.partition(" -> ")
        # The same pair the other way round speaks to the same question.
        key, improves = ((name, words), change > 0)
        if (name, f"{after} -> {before}") in better.keys() | worse.keys():
            key, improves = (name, f"{after} -> {before}"), change < 0
        (better if improves else worse)[key] += 1
    asked = sorted(better.keys() | worse.keys(), key=lambda key: (-better[key] - worse[key], key))
    told = [_constant(key, better[key], worse[key]) for key in asked if better[key] + worse[key] >= _LEAST]
    return told[:_MOST_TUNABLES]


def _constant(key: tuple[str, str], better: int, worse: int) -> Lesson:
    name, words = key
    if better >= worse:
        return Lesson(f"{name}: {words}, all else equal, is better", better, worse)
    return Lesson(f"{name}: {words}, all else equal, is worse", worse, better)


def _operators(experience: Experience) -> list[Lesson]:
    """How often a kind of change failed, and why mostly; or how often it gained."""
    by_operator: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in experience.outcomes:
        if outcome.proposer not in {"seed", "tuner"}:
            by_operator[outcome.operator].append(outcome)
    return [
        _operator(name, tried, experience)
        for name, tried in sorted(by_operator.items())
        if len(tried) >= _LEAST_OPERATOR
    ]


def _operator(name: str, tried: Sequence[Outcome], experience: Experience) -> Lesson:
    failed = [outcome for outcome in tried if outcome.status is not Status.PASSED]
    if 2 * len(failed) >= len(tried):
        status, count = Counter(outcome.status.value for outcome in failed).most_common(1)[0]
        text = f"most programs by {name} fail, mostly with {status} ({count} of {len(failed)}): check that first"
        return Lesson(text, len(failed), len(tried) - len(failed))
    gained = sum((experience.gain(outcome) or 0.0) > 0 for outcome in tried)
    return Lesson(f"programs by {name} mostly pass; so many are better than their parent", gained, len(tried) - gained)
