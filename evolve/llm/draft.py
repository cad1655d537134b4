"""An answer while it arrives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from evolve.llm.answer import Answer, Finish, Usage
from evolve.llm.errors import Failure, FailureKind, Scope
from evolve.llm.request import Request

_BYTES_PER_TOKEN = 3
"""For estimates: source code and English lie between 3 and 4.5 with today's tokenisers, so this errs upwards."""
_OVERHEAD_TOKENS = 64
"""Chat template and role markers, generously."""
_THINK = re.compile(r"\A\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Counted:
    """What a server counted; disjoint. ``None`` where it said nothing that can be a number of tokens."""

    input: int | None = None
    cached_input: int = 0
    cache_write: int = 0
    output: int | None = None
    reasoning: int = 0

    @classmethod
    def of(
        cls, prompt: int | None, cached: int | None, written: int | None, output: int | None, reasoning: int | None
    ) -> Counted:
        """From the counts of a server whose ``prompt`` is all of the input, whatever its cache did."""
        cached, written = cached or 0, written or 0
        fresh = None if prompt is None else max(0, prompt - cached - written)
        return cls(fresh, cached, written, output, reasoning or 0)


@dataclass
class Draft:
    """What has arrived so far; a wire adds to it, event by event."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    finish: Finish | None = None
    counted: Counted = Counted()
    model: str = ""
    request_id: str = ""
    ended: bool = False
    """The stream's own end marker was seen."""
    failure: Failure | None = None
    """An error event inside the stream."""

    def to_answer(self, request: Request, quirks: tuple[str, ...]) -> Answer | Failure:
        """The finished answer, or why it is none: a stream that just stops is broken, not short."""
        if self.failure is not None:
            return self.failure
        if self.finish is None and not self.ended:
            return Failure(FailureKind.BROKEN_STREAM, Scope.RETRY, "the stream ended without an end marker")
        text, reasoning = "".join(self.text), "".join(self.reasoning)
        if thought := _THINK.match(text):
            reasoning, text = reasoning + thought[1], text[thought.end() :]
        finish = self.finish or Finish.STOP
        if self.refusal:
            finish, text = Finish.REFUSAL, text or "".join(self.refusal)
        return Answer(
            text=text,
            finish=finish,
            usage=self.usage_or_estimate(request),
            reasoning=reasoning,
            reported_model=self.model,
            request_id=self.request_id,
            quirks=quirks,
        )

    def usage_or_estimate(self, request: Request) -> Usage:
        """The server's counts where they are whole and can be true, else ours: no text was asked or answered for 0."""
        said, whole = self.counted, self.finish is not None or self.ended
        cached = said.cached_input + said.cache_write
        knows_input = said.input is not None and said.input + cached > 0
        least = estimate_tokens("".join((*self.text, *self.reasoning, *self.refusal)))
        knows_output = whole and said.output is not None and (said.output > 0 or least == 0)
        return Usage(
            input=said.input or 0 if knows_input else max(0, input_estimate(request) - cached),
            cached_input=said.cached_input,
            cache_write=said.cache_write,
            output=said.output or 0 if knows_output else max(least, said.output or 0),
            reasoning=said.reasoning if knows_output else 0,
            estimated=not (knows_input and knows_output),
        )


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is; rounded up."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


def input_estimate(request: Request) -> int:
    """About how many tokens a request's text is."""
    return -(-request.bytes // _BYTES_PER_TOKEN) + _OVERHEAD_TOKENS


def worst_usage(request: Request) -> Usage:
    """The most tokens a request can use: a byte-level tokeniser makes at most one token of each byte."""
    overhead = _OVERHEAD_TOKENS + 16 * len(request.messages)
    return Usage(input=request.bytes + overhead, output=request.max_output_tokens, estimated=True)
