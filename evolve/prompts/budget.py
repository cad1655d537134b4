"""How much of a prompt each section may take, and cutting to it without breaking anything apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import PositiveInt

from evaluators.evaluation import Frozen
from evolve.llm.draft import estimate_tokens

T = TypeVar("T")


class SectionBudgets(Frozen):
    """Tokens a section may take at most, by our own estimate, which errs upwards."""

    system: PositiveInt = 8_000
    """Rules, task, device and architecture: the stable part."""
    parent: PositiveInt = 24_000
    """The program itself is never cut: one that does not fit is not shown at all."""
    profile: PositiveInt = 2_500
    inspirations: PositiveInt = 12_000
    failures: PositiveInt = 2_500
    lessons: PositiveInt = 1_000
    hints: PositiveInt = 1_000
    knowledge: PositiveInt = 2_500
    detail: PositiveInt = 1_200
    """A compiler's words on one program."""


def fitting_items(items: Sequence[T], budget: int, render: Callable[[Sequence[T]], str]) -> str:
    """The rendering of as many items, from the first, as fit; empty where not even one does."""
    text = render(items) if items else ""
    if estimate_tokens(text) <= budget:
        return text
    most = _most(len(items) - 1, lambda n: estimate_tokens(render(items[:n])) <= budget)
    return render(items[:most]) if most else ""


def fitting_text(text: str, budget: int, render: Callable[[str], str]) -> str:
    """The rendering of as much of the text as fits, cut in its middle; empty where nothing does."""
    whole = render(text)
    if estimate_tokens(whole) <= budget:
        return whole
    most = _most(len(text), lambda n: estimate_tokens(render(shortened(text, n))) <= budget)
    return render(shortened(text, most)) if most else ""


def shortened(text: str, most: int) -> str:
    """At most so many characters: the beginning and the end, and in between how much is missing.

    Compilers say what matters first, programs last.
    """
    if len(text) <= most:
        return text
    mark = f"\n[… {len(text) - most} characters left out …]\n"
    keep = most - len(mark)
    if keep <= 0:
        return text[:most]
    head = keep * 2 // 3
    return text[:head] + mark + text[len(text) - (keep - head) :]


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to the limit that fits, by bisection; 0 is taken to."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
