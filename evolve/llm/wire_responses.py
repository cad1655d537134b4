"""OpenAI's Responses API: some of its models are served there only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolve.llm.answer import Finish
from evolve.llm.classify import stream_failure
from evolve.llm.draft import Counted, Draft
from evolve.llm.quirks import Quirks
from evolve.llm.request import Request
from evolve.llm.sse import Event
from evolve.llm.wire import count, items, limited, mapping, parse_object, text

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesWire:
    """See :class:`~evolve.llm.wire.Wire`."""

    optional = frozenset({"temperature", "reasoning", "stream"})

    def body(self, request: Request, quirks: Quirks) -> dict[str, Any]:
        """See :class:`~evolve.llm.wire.Wire`."""
        body: dict[str, Any] = {
            "model": request.model.model,
            "input": [{"role": m.role, "content": m.text} for m in request.messages],
            "max_output_tokens": limited(request, quirks),
            "store": False,
        }
        if request.system:
            body["instructions"] = request.system
        if quirks.stream:
            body["stream"] = True
        if request.temperature is not None and quirks.temperature:
            body["temperature"] = request.temperature
        if request.effort is not None and quirks.effort:
            body["reasoning"] = {"effort": request.effort}
        return body

    def absorb(self, draft: Draft, event: Event) -> None:
        """See :class:`~evolve.llm.wire.Wire`."""
        if event.data.startswith("[DONE]"):
            return
        data = parse_object(event.data)
        kind = text(data.get("type"))
        if kind == "response.output_text.delta":
            draft.text.append(text(data.get("delta")))
        elif kind == "response.refusal.delta":
            draft.refusal.append(text(data.get("delta")))
        elif kind in {"response.reasoning_text.delta", "response.reasoning_summary_text.delta"}:
            draft.reasoning.append(text(data.get("delta")))
        elif kind == "error":
            draft.failure = stream_failure(data)
        elif kind in _ENDS:
            _absorb_end(draft, mapping(data.get("response")))

    def absorb_whole(self, draft: Draft, body: Mapping[str, Any]) -> None:
        """See :class:`~evolve.llm.wire.Wire`."""
        for item in items(body.get("output")):
            for part in items(item.get("content")):
                draft.text.append(text(part.get("text")) if part.get("type") == "output_text" else "")
                if refusal := text(part.get("refusal")):
                    draft.refusal.append(refusal)
        _absorb_end(draft, body)


def _absorb_end(draft: Draft, response: Mapping[str, Any]) -> None:
    draft.ended = True
    draft.model = text(response.get("model"))
    draft.request_id = text(response.get("id"))
    if usage := mapping(response.get("usage")):
        draft.counted = _counted(usage)
    if response.get("status") == "failed":
        draft.failure = stream_failure(response)
    reason = mapping(response.get("incomplete_details")).get("reason")
    draft.finish = {"max_output_tokens": Finish.LENGTH, "content_filter": Finish.REFUSAL}.get(str(reason), Finish.STOP)


def _counted(usage: Mapping[str, Any]) -> Counted:
    details = mapping(usage.get("input_tokens_details"))
    return Counted.of(
        prompt=count(usage.get("input_tokens")),
        cached=count(details.get("cached_tokens")),
        written=count(details.get("cache_write_tokens")),
        output=count(usage.get("output_tokens")),
        reasoning=count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )
