"""Putting an answer that broke off together with its continuation."""

from __future__ import annotations

from dataclasses import replace

from evolve.edits.fences import code_blocks
from evolve.edits.text import unix_lines
from evolve.llm.answer import Answer

_LONGEST_OVERLAP = 2000
_SHORTEST_OVERLAP = 12
"""Fewer equal characters may be chance."""
_SHORTEST_LINE = 3
"""A shorter beginning of a line may well be followed by the same again: ``/`` and ``/``."""


def joined(first: Answer, more: Answer) -> Answer:
    """One answer of two: what the continuation repeats is left out, and so is a code fence that it opens anew.

    Usage stays with the calls that it belongs to; the joined answer carries the continuation's.
    """
    text = _join(unix_lines(first.text), unix_lines(more.text))
    return replace(more, text=text, reasoning=first.reasoning + more.reasoning)


def _join(head: str, tail: str) -> str:
    if _is_inside_block(head):
        tail = _without_new_fence(tail)
    overlap = _overlap(head, tail)
    if overlap:
        return head + tail[overlap:]
    line = head[head.rfind("\n") + 1 :]
    first = tail.split("\n", 1)[0]
    if len(line.strip()) >= _SHORTEST_LINE and first.strip().startswith(line.strip()):
        return head[: len(head) - len(line)] + line[: len(line) - len(line.lstrip())] + tail.lstrip()
    return head + tail


def _overlap(head: str, tail: str) -> int:
    """How many characters at the start of the continuation repeat the end of what was there."""
    longest = min(len(head), len(tail), _LONGEST_OVERLAP)
    return next((n for n in range(longest, _SHORTEST_OVERLAP - 1, -1) if head.endswith(tail[:n])), 0)


def _is_inside_block(text: str) -> bool:
    blocks = code_blocks(text)
    return bool(blocks) and not blocks[-1].closed


def _without_new_fence(text: str) -> str:
    """Without a fence that opens the block anew; a bare one with no other after it closes the block instead."""
    blocks = code_blocks(text)
    if not blocks or text.split("\n")[: blocks[0].first_line] != [""] * blocks[0].first_line:
        return text
    if not (blocks[0].language or blocks[0].closed):
        return text
    return "\n".join(text.split("\n")[blocks[0].first_line + 1 :])
