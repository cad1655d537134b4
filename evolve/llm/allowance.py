"""How large an answer may become: a server that never stops sending must not fill the memory."""

from __future__ import annotations

from evolve.llm.draft import Draft
from evolve.llm.sse import MalformedStreamError

_SLACK = 1 << 20
_TEXT_BYTES = 16
"""Characters of text for each token that was allowed; four are usual."""
_BODY_BYTES = 64
"""The same in JSON, where a character may take six bytes, and reasoning comes along."""
_EVENT_BYTES = 1024
"""The same as a stream, where each token may come in an event of its own with all its trimmings."""


class Allowance:
    """What may still come of one answer."""

    def __init__(self, output_tokens: int) -> None:
        """Of a request that allows so many tokens."""
        self._text = _SLACK + _TEXT_BYTES * output_tokens
        self._body = _SLACK + _BODY_BYTES * output_tokens
        self._stream = _SLACK + _EVENT_BYTES * output_tokens
        self._streamed = 0
        self._uncounted = self._text
        """Within a stream of so many bytes there cannot be more text than is allowed: each character took a byte."""
        self._counted = (0, 0, 0)

    def take_body(self, piece: bytes) -> None:
        """A piece of an answer that comes whole.

        Raises:
            MalformedStreamError: that is too much.
        """
        self._body -= len(piece)
        _check(self._body)

    def take_stream(self, piece: bytes, draft: Draft) -> None:
        """A piece of a stream, after it was added to the draft.

        Raises:
            MalformedStreamError: that is too much.
        """
        self._streamed += len(piece)
        _check(self._stream - self._streamed)
        if self._streamed > self._uncounted:
            self._take_text(draft)

    def _take_text(self, draft: Draft) -> None:
        parts = (draft.text, draft.reasoning, draft.refusal)
        self._text -= sum(len(t) for part, n in zip(parts, self._counted, strict=True) for t in part[n:])
        self._counted = (len(draft.text), len(draft.reasoning), len(draft.refusal))
        _check(self._text)


def _check(left: int) -> None:
    if left < 0:
        raise MalformedStreamError("far more came than the tokens that were allowed")
