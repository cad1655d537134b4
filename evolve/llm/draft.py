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


@dataclass
class Draft:
    """What has arrived so far; a wire adds to it, event by event."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    finish: Finish | None = None
    usage: Usage | None = None
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
        """The server's count where it is complete, else ours."""
        if self.usage is not None and (self.finish is not None or self.ended):
            return self.usage
        output = estimate_tokens("".join((*self.text, *self.reasoning, *self.refusal)))
        if self.usage is None:
            return Usage(input=input_estimate(request), output=output, estimated=True)
        known = self.usage
        return Usage(known.input, known.cached_input, known.cache_write, max(output, known.output), 0, estimated=True)


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
