"""From a question to a program: ask, let a broken-off answer be continued, and once show what did not fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from evolve.edits.continuation import joined
from evolve.edits.outcome import Edited, Reason, Unusable
from evolve.edits.reading import EditContext, read_answer
from evolve.edits.text import first_words
from evolve.llm.answer import Answer, Finish
from evolve.llm.request import CallKey, Message

Ask = Callable[[tuple[Message, ...], CallKey], Awaitable[Answer]]
"""Puts a conversation to the model that was chosen."""


class Words(Protocol):
    """What is said in the turns after the first."""

    def go_on(self) -> str:
        """To a model whose answer broke off."""
        ...

    def mend(self, unusable: Unusable) -> str:
        """To a model whose answer cannot be used, showing what did not fit."""
        ...


@dataclass(frozen=True)
class Spoken:
    """What a dialogue came to."""

    outcome: Edited | Unusable
    reasons: tuple[Reason, ...]
    """Every reason met on the way, also those that were mended: they are counted."""
    calls: int
    said: str = ""
    """How the last answer begins; one line."""


async def converse(
    ask: Ask, prompt: str, context: EditContext, number: int, words: Words, continuations: int = 1
) -> Spoken:
    """Ask for the program ``number``.

    Every call has its own key, so that after a crash the dialogue is led again from the stored answers.

    Raises:
        CallError, CapError: from ``ask``; the answers so far are stored.
    """
    turns: tuple[Message, ...] = (Message("user", prompt),)
    answer = await ask(turns, CallKey(number, "propose"))
    calls, reasons = 1, []
    outcome = read_answer(answer, context)
    for n in range(1, continuations + 1):
        if not _worth_going_on(outcome, answer):
            break
        reasons.append(Reason.TRUNCATED)
        go_on = (*turns, Message("assistant", answer.text), Message("user", words.go_on()))
        answer = joined(answer, await ask(go_on, CallKey(number, f"continue-{n}")))
        calls += 1
        outcome = read_answer(answer, context)
    if isinstance(outcome, Unusable) and outcome.repairable:
        reasons.append(outcome.reason)
        mend = (*turns, Message("assistant", answer.text), Message("user", words.mend(outcome)))
        answer = await ask(mend, CallKey(number, "mend"))
        outcome = read_answer(answer, context)
        calls += 1
    if isinstance(outcome, Unusable):
        reasons.append(outcome.reason)
    return Spoken(outcome, tuple(reasons), calls, first_words(answer.text))


def _worth_going_on(outcome: Edited | Unusable, answer: Answer) -> bool:
    """A truncated answer that says something; one that was all reasoning would only reason again."""
    cut = isinstance(outcome, Unusable) and outcome.reason is Reason.TRUNCATED
    return cut and answer.finish is Finish.LENGTH and bool(answer.text.strip())
