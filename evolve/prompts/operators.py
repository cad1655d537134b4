"""The operators: what a model is asked to do with a parent, and when that makes sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evolve.prompts.context import PromptContext


@dataclass(frozen=True)
class Operator:
    """One way to make a program out of others."""

    name: str
    answer: Literal["diff", "whole", "file"]
    sections: tuple[str, ...]
    """In the order in which they stand in the prompt, after the parent."""
    weight: float
    """Its prior share of the proposals."""
    fits: Callable[[PromptContext], bool]


def _passed(context: PromptContext) -> bool:
    return context.parent.status == "passed"


def _same_language(context: PromptContext) -> bool:
    return context.parent.language == context.task.language


def _scalar(context: PromptContext) -> bool:
    """Whether it was compiled to next to no vector instructions, by what was counted."""
    share = dict(context.parent.measures).get("simd_share")
    return context.parent.language == "cpp" and share is not None and float(share) < _SCALAR


_SCALAR = 0.1
"""A share of vector instructions below which a program makes no use of them."""
PROFILE_GUIDED = "profile-guided"
"""The operator that makes sense for programs with a profile alone."""
_LEARNT = ("failures", "lessons", "hints")

OPERATORS: dict[str, Operator] = {
    o.name: o
    for o in (
        Operator("diff", "diff", ("profile", "inspirations", *_LEARNT, "knowledge"), 4.0,
                 lambda c: _passed(c) and _same_language(c)),
        Operator("rewrite", "whole", ("profile", "inspirations", *_LEARNT, "knowledge"), 2.0,
                 lambda c: _passed(c) and _same_language(c)),
        Operator("crossover", "whole", ("inspirations", *_LEARNT), 1.0,
                 lambda c: _passed(c) and _same_language(c) and bool(c.inspirations)),
        Operator("repair", "diff", _LEARNT, 2.0, lambda c: not _passed(c) and _same_language(c)),
        Operator(PROFILE_GUIDED, "diff", ("profile", *_LEARNT, "knowledge"), 2.0,
                 lambda c: _passed(c) and _same_language(c) and c.profile is not None),
        Operator("simplify", "diff", ("hints",), 0.5, lambda c: _passed(c) and _same_language(c)),
        Operator("port", "whole", ("inspirations", *_LEARNT, "knowledge"), 1.0,
                 lambda c: not _same_language(c) or (_passed(c) and _scalar(c))),
    )
}  # fmt: skip

AGENT = Operator(
    "agent", "file", ("profile", "inspirations", *_LEARNT, "knowledge"), weight=0.0, fits=lambda context: False
)
"""What agents outside are briefed with: no model is ever asked for it."""


def fitting(context: PromptContext) -> tuple[str, ...]:
    """The operators that make sense for what is at hand."""
    return tuple(name for name, operator in OPERATORS.items() if operator.fits(context))
