"""What was said to language models and what they answered: a list of dialogues, or one from its first word to its last.

Every word of it is foreign: it stands in fences that it cannot close.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from evolve.database.model_records import PROGRAM, CallStatus, Dialogue, Ending, ModelCall, ModelReply
from evolve.display.report import Report, Table, facts
from evolve.prompts.fencing import fenced

OPEN = "open"
"""Of a dialogue that goes on, or was broken off and is led again when its run is resumed."""


@dataclass(frozen=True)
class Led:
    """A dialogue, and what it came to."""

    dialogue: Dialogue
    outcome: str
    """``program``, ``open``, or the reason why it became none."""
    message: str = ""

    @property
    def data(self) -> dict[str, object]:
        """For ``--json``."""
        return {**asdict(self.dialogue), "outcome": self.outcome, "message": self.message}


def led(
    dialogues: Sequence[Dialogue], going_on: Sequence[Dialogue], endings: Sequence[tuple[Dialogue, Ending]]
) -> list[Led]:
    """All dialogues of a run by number, from the three lists that its storage has of them."""
    open_numbers = {dialogue.number for dialogue in going_on}
    came_to = {dialogue.number: ending for dialogue, ending in endings}
    return [
        Led(d, came_to[d.number].outcome, came_to[d.number].message)
        if d.number in came_to
        else Led(d, OPEN if d.number in open_numbers else PROGRAM)
        for d in dialogues
    ]


def dialogues_report(some: Sequence[Led], each: str) -> Report:
    """A row per dialogue; ``each`` is what to type to read one."""
    columns = ("number", "model", "operator", "on", "came to", "why")
    rows = tuple(
        (str(d.number), d.model, d.operator, str(d.parent), one.outcome, one.message or "-")
        for one in some
        for d in (one.dialogue,)
    )
    table = Table(columns, rows, right=frozenset({"number", "on"}))
    data = {"dialogues": [one.data for one in some]}
    return Report(data, [table, f"{each} N shows what was said"] if rows else ["no language model was asked"])


def dialogue_report(one: Led, calls: Sequence[ModelCall]) -> Report:
    """Every request of a dialogue with its answer; what a request only repeats is left out, but not of the data."""
    dialogue = one.dialogue
    head = facts(
        [
            ("dialogue", f"{dialogue.number}, {dialogue.operator} on program {dialogue.parent}"),
            ("model", dialogue.model),
            ("came to", f"program {dialogue.number}" if one.outcome == PROGRAM else one.outcome),
            ("why", one.message),
        ]
    )
    transcript = _Transcript()
    parts = [head, *(part for call in calls for part in transcript.of(call))]
    return Report({**one.data, "calls": [_call_data(call) for call in calls]}, parts)


@dataclass
class _Transcript:
    """Knows what was shown already: every further request of a dialogue repeats it."""

    shown: set[tuple[str, str]] = field(default_factory=set)

    def of(self, call: ModelCall) -> Iterator[str]:
        request, reply = call.request, call.reply
        yield f"\n===== {request.step}, attempt {call.attempt}, to {request.model} ====="
        turns = [{"role": "system", "text": request.system}, *json.loads(request.messages)]
        new = [(turn["role"], turn["text"]) for turn in turns if (turn["role"], turn["text"]) not in self.shown]
        if not new:
            yield "the same question as before"
        for role, text in new:
            yield from ("", f"{role}:", fenced(text))
        self.shown.update(new)
        yield f"\n{_ended(reply)}"
        if reply is not None and reply.reasoning:
            yield from ("reasoning:", fenced(reply.reasoning))
        if reply is not None and reply.completion is not None:
            yield fenced(reply.completion)
            self.shown.add(("assistant", reply.completion))


def _ended(reply: ModelReply | None) -> str:
    if reply is None:
        return "no answer yet"
    used = f"{reply.tokens - reply.tokens_out} tokens in, {reply.tokens_out} out"
    used += ", our own count" if reply.estimated else ""
    used += ", no price" if reply.dollars is None else f", ${reply.dollars:.4f}"
    if reply.status is CallStatus.ANSWERED:
        return f"answered ({reply.finish}; {used}):"
    if reply.status is CallStatus.LOST:
        return f"lost when the process ended ({used})"
    return f"failed ({used}): {reply.failure}: {reply.message}"


def _call_data(call: ModelCall) -> Mapping[str, object]:
    request, reply = call.request, call.reply
    return {
        "attempt": call.attempt,
        **asdict(request),
        "messages": json.loads(request.messages),
        "parameters": json.loads(request.parameters),
        "reply": None if reply is None else asdict(reply),
    }
