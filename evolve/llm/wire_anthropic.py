"""Anthropic messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evolve.llm.answer import Finish
from evolve.llm.classify import stream_failure
from evolve.llm.draft import Counted, Draft
from evolve.llm.quirks import Quirks
from evolve.llm.request import Request
from evolve.llm.sse import Event
from evolve.llm.wire import count, items, limited, mapping, parse_object, text

_FINISH = {
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSAL,
}
_SMALLEST_BUDGET = 1024
_EFFORT_SHARE = {"minimal": 0.1, "low": 0.2, "medium": 0.4, "high": 0.6, "xhigh": 0.75, "max": 0.8}
"""Share of the output that may be thinking, for models that take a budget in place of an effort."""


class AnthropicWire:
    """See :class:`~evolve.llm.wire.Wire`."""

    optional = frozenset({"temperature", "thinking", "output_config", "stream"})

    def body(self, request: Request, quirks: Quirks) -> dict[str, Any]:
        """See :class:`~evolve.llm.wire.Wire`. The system text is marked as the prefix worth caching."""
        body: dict[str, Any] = {
            "model": request.model.model,
            "max_tokens": limited(request, quirks),
            "messages": [{"role": m.role, "content": m.text} for m in request.messages],
        }
        if request.system:
            block: dict[str, Any] = {"type": "text", "text": request.system}
            if quirks.cache_control:
                block["cache_control"] = {"type": "ephemeral"}
            body["system"] = [block]
        if quirks.stream:
            body["stream"] = True
        body |= _thinking(request, quirks, body["max_tokens"])
        # Thinking fixes the temperature; the SDK has no argument for it any more.
        if request.temperature is not None and quirks.temperature and "thinking" not in body:
            body["extra_body"] = {"temperature": request.temperature}
        return body

    def absorb(self, draft: Draft, event: Event) -> None:
        """See :class:`~evolve.llm.wire.Wire`."""
        if event.name == "ping" or not event.data:
            return
        data = parse_object(event.data)
        kind = data.get("type")
        if kind == "content_block_delta":
            _absorb_delta(draft, mapping(data.get("delta")))
        elif kind == "content_block_start":
            draft.text.append(text(mapping(data.get("content_block")).get("text")))
        elif kind == "message_start":
            _absorb_head(draft, mapping(data.get("message")))
        elif kind == "message_delta":
            _absorb_end(draft, mapping(data.get("delta")), mapping(data.get("usage")))
        elif kind == "message_stop":
            draft.ended = True
        elif kind == "error":
            draft.failure = stream_failure(data)

    def absorb_whole(self, draft: Draft, body: Mapping[str, Any]) -> None:
        """See :class:`~evolve.llm.wire.Wire`."""
        for block in items(body.get("content")):
            draft.text.append(text(block.get("text")))
            draft.reasoning.append(text(block.get("thinking")))
        _absorb_head(draft, body)
        _absorb_end(draft, body, mapping(body.get("usage")))
        draft.ended = True


def _thinking(request: Request, quirks: Quirks, max_tokens: int) -> dict[str, Any]:
    if quirks.thinking == "none" or (request.effort is None and request.thinking_tokens is None):
        return {}
    kind = quirks.thinking or ("enabled" if request.thinking_tokens is not None else "adaptive")
    if kind == "adaptive":
        body: dict[str, Any] = {"thinking": {"type": "adaptive"}}
        if request.effort is not None and quirks.effort:
            body["output_config"] = {"effort": "low" if request.effort == "minimal" else request.effort}
        return body
    share = _EFFORT_SHARE.get(request.effort or "medium", 0.4)
    budget = request.thinking_tokens or max(_SMALLEST_BUDGET, int(share * max_tokens))
    if budget >= max_tokens:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _absorb_delta(draft: Draft, delta: Mapping[str, Any]) -> None:
    if delta.get("type") == "text_delta":
        draft.text.append(text(delta.get("text")))
    elif delta.get("type") == "thinking_delta":
        draft.reasoning.append(text(delta.get("thinking")))


def _absorb_head(draft: Draft, message: Mapping[str, Any]) -> None:
    draft.model = text(message.get("model"))
    draft.request_id = text(message.get("id"))
    if usage := mapping(message.get("usage")):
        draft.counted = _counted(usage, Counted())


def _absorb_end(draft: Draft, delta: Mapping[str, Any], usage: Mapping[str, Any]) -> None:
    if reason := delta.get("stop_reason"):
        draft.finish = _FINISH.get(str(reason), Finish.STOP)
    if usage:
        ended = _counted(usage, draft.counted)
        thought = count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")) or 0
        draft.counted = replace(ended, output=count(usage.get("output_tokens")), reasoning=thought)


def _counted(usage: Mapping[str, Any], before: Counted) -> Counted:
    """The input's tokens. Counts are cumulative: those that are left out at the end stand as at the start."""
    return Counted(
        input=count(usage.get("input_tokens")) or before.input,
        cached_input=count(usage.get("cache_read_input_tokens")) or before.cached_input,
        cache_write=count(usage.get("cache_creation_input_tokens")) or before.cache_write,
    )
