"""OpenAI chat completions: what OpenAI and every compatible server speaks."""

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

_FINISH = {"length": Finish.LENGTH, "content_filter": Finish.REFUSAL}


class ChatWire:
    """See :class:`~evolve.llm.wire.Wire`."""

    optional = frozenset(
        {"max_completion_tokens", "max_tokens", "temperature", "reasoning_effort", "stream", "stream_options"}
    )

    def body(self, request: Request, quirks: Quirks) -> dict[str, Any]:
        """See :class:`~evolve.llm.wire.Wire`."""
        body: dict[str, Any] = {
            "model": request.model.model,
            "messages": chat_messages(request, quirks),
            quirks.token_field: limited(request, quirks),
        }
        if quirks.stream:
            body["stream"] = True
            if quirks.stream_options:
                body["stream_options"] = {"include_usage": True}
        if request.temperature is not None and quirks.temperature:
            body["temperature"] = request.temperature
        if request.effort is not None and quirks.effort:
            body["reasoning_effort"] = request.effort
        return body

    def absorb(self, draft: Draft, event: Event) -> None:
        """See :class:`~evolve.llm.wire.Wire`."""
        if event.data.startswith("[DONE]"):
            draft.ended = True
            return
        chunk = parse_object(event.data)
        if chunk.get("error"):
            draft.failure = stream_failure(chunk)
            return
        _absorb_head(draft, chunk)
        for choice in items(chunk.get("choices"))[:1]:
            _absorb_choice(draft, choice, mapping(choice.get("delta")))

    def absorb_whole(self, draft: Draft, body: Mapping[str, Any]) -> None:
        """See :class:`~evolve.llm.wire.Wire`."""
        _absorb_head(draft, body)
        for choice in items(body.get("choices"))[:1]:
            _absorb_choice(draft, choice, mapping(choice.get("message")))
        draft.ended = True


def chat_messages(request: Request, quirks: Quirks) -> list[dict[str, str]]:
    """The conversation as role and content; without a system role its text leads the first user message."""
    turns = [{"role": m.role, "content": m.text} for m in request.messages]
    if not request.system:
        return turns
    if quirks.system == "user":
        return [{"role": "user", "content": f"{request.system}\n\n{turns[0]['content']}"}, *turns[1:]]
    return [{"role": "system", "content": request.system}, *turns]


def _absorb_head(draft: Draft, chunk: Mapping[str, Any]) -> None:
    draft.model = draft.model or text(chunk.get("model"))
    draft.request_id = draft.request_id or text(chunk.get("id"))
    if usage := mapping(chunk.get("usage")):
        draft.counted = _counted(usage)


def _absorb_choice(draft: Draft, choice: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    draft.text.append(text(part.get("content")))
    # ``reasoning_content`` is vLLM's and DeepSeek's name, ``reasoning`` OpenRouter's and Ollama's.
    draft.reasoning.append(text(part.get("reasoning_content") or part.get("reasoning")))
    if refusal := text(part.get("refusal")):
        draft.refusal.append(refusal)
    if reason := text(choice.get("finish_reason")):
        draft.finish = _FINISH.get(reason, Finish.STOP)


def _counted(usage: Mapping[str, Any]) -> Counted:
    details = mapping(usage.get("prompt_tokens_details"))
    return Counted.of(
        prompt=count(usage.get("prompt_tokens")),
        cached=count(details.get("cached_tokens")),
        written=count(details.get("cache_write_tokens")),
        output=count(usage.get("completion_tokens")),
        reasoning=count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )
