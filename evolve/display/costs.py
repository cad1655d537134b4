"""What language models cost and what came of it: by model, by operator, and for each improvement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evolve.database.model_records import ModelSpending
from evolve.display.report import Table
from evolve.improvements import Gains


@dataclass(frozen=True)
class Talk:
    """All that a run said to language models, in numbers."""

    spending: Sequence[ModelSpending] = ()
    gains: Gains = field(default_factory=Gains)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Dialogues that became no program, by reason."""


def costs_data(talk: Talk) -> dict[str, object]:
    """For ``--json``."""
    return {
        "total": _sum(talk, talk.spending),
        "by_model": _by(talk, lambda s: s.model),
        "by_operator": _by(talk, lambda s: s.operator),
        "by_model_and_operator": _by(talk, lambda s: f"{s.model} {s.operator}"),
        "unusable": dict(talk.outcomes),
    }


def costs_table(talk: Talk) -> Table:
    """A row for each model and operator, then for each model and each operator where there are several."""
    rows = [_row(f"{s.model}  {s.operator}", _sum(talk, [s])) for s in talk.spending]
    by_model, by_operator = _by(talk, lambda s: s.model), _by(talk, lambda s: s.operator)
    if len(by_model) > 1 and len(by_operator) > 1:
        rows += [_row(f"{name}  all", sums) for name, sums in by_model.items()]
        rows += [_row(f"all  {name}", sums) for name, sums in by_operator.items()]
    if len(talk.spending) > 1:
        rows.append(_row("all", _sum(talk, talk.spending)))
    columns = ("model, operator", "requests", "answers", "tokens in", "out", "dollars", "cells", "improved", "$ each")
    return Table(columns, tuple(rows), "language models", frozenset(columns[1:]))


def costs_notes(talk: Talk) -> str:
    """What the figures leave out, and what was of no use."""
    notes = []
    if talk.outcomes:
        counts = ", ".join(f"{reason} {n}" for reason, n in sorted(talk.outcomes.items(), key=lambda item: -item[1]))
        notes.append(f"became no program: {counts}")
    cut = sum(s.open for s in talk.spending)
    if cut:
        notes.append(f"{cut} requests without an end (in flight, or cut off and counted with their worst case)")
    unpriced = sum(s.unpriced for s in talk.spending)
    if unpriced:
        notes.append(f"{unpriced} requests to models without a price: the dollars are not all")
    estimated = sum(s.estimated for s in talk.spending)
    if estimated:
        notes.append(f"tokens of {estimated} requests are our own count")
    return "\n".join(notes)


def _by(talk: Talk, key: Callable[[ModelSpending], str]) -> dict[str, dict[str, object]]:
    names = dict.fromkeys(key(s) for s in talk.spending)
    return {name: _sum(talk, [s for s in talk.spending if key(s) == name]) for name in names}


def _sum(talk: Talk, spending: Iterable[ModelSpending]) -> dict[str, object]:
    some = list(spending)
    dollars = sum(s.dollars for s in some)
    improved = sum(talk.gains.improved.get((s.model, s.operator), 0) for s in some)
    unpriced = sum(s.unpriced for s in some)
    return {
        "requests": sum(s.requests for s in some),
        "answers": sum(s.answers for s in some),
        "failures": sum(s.failures for s in some),
        "open": sum(s.open for s in some),
        "tokens_in": sum(s.tokens_in for s in some),
        "tokens_out": sum(s.tokens_out for s in some),
        "dollars": dollars,
        "took_a_cell": sum(talk.gains.placed.get((s.model, s.operator), 0) for s in some),
        "improved": improved,
        "dollars_per_improvement": dollars / improved if improved and not unpriced else None,
        "unpriced": unpriced,
        "estimated": sum(s.estimated for s in some),
    }


def _row(name: str, sums: Mapping[str, object]) -> tuple[str, ...]:
    each = sums["dollars_per_improvement"]
    names = ("requests", "answers", "tokens_in", "tokens_out")
    counts = tuple(str(sums[key]) for key in names)
    dollars = f"{sums['dollars']:.4f}"
    if sums["unpriced"]:
        dollars = f"{dollars} and unpriced" if sums["dollars"] else "unpriced"
    came_to = (str(sums["took_a_cell"]), str(sums["improved"]))
    return (name, *counts, dollars, *came_to, "-" if each is None else f"{each:.4f}")
