"""The decoder gives the same events however the bytes are cut, and whatever ends the lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.llm.sse import Event, MalformedStreamError, SseDecoder

_LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=12)
_EVENT = st.builds(Event, st.text("abc_.", max_size=6), st.lists(_LINE, min_size=1, max_size=3).map("\n".join))


def _encode(events: list[Event], end: str) -> bytes:
    out = ""
    for event in events:
        out += f": a comment{end}"
        out += f"event: {event.name}{end}" if event.name else ""
        out += "".join(f"data: {line}{end}" for line in event.data.split("\n")) + end
    return out.encode()


@given(st.lists(_EVENT, max_size=5), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(1, 9), max_size=40))
def test_any_cut_gives_the_same_events(events, end, sizes):
    raw, decoder, got = _encode(events, end) + b": end\n", SseDecoder(), []
    for size in sizes:
        piece, raw = raw[:size], raw[size:]
        got += decoder.feed(piece)
    got += decoder.feed(raw)
    assert got == events


def test_an_unfinished_event_is_not_an_event():
    assert SseDecoder().feed(b"data: half\n") == []


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(MalformedStreamError):
        SseDecoder().feed(b"data: \xff\xfe\n\n")


def test_a_line_without_end_is_refused_before_it_fills_memory():
    decoder = SseDecoder()
    decoder.feed(b"x" * (15 << 20))
    with pytest.raises(MalformedStreamError):
        decoder.feed(b"x" * (2 << 20))
