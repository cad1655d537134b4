"""How each API words an answer: streams, whole bodies and errors, after the published formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from evolve.testing_llm.replies import Asked, Reply, tokens

_PIECE = 24
"""Characters in one delta of a stream."""


def pieces(text: str) -> list[str]:
    """A text in the pieces that a stream brings."""
    return [text[i : i + _PIECE] for i in range(0, len(text), _PIECE)]


def input_tokens(asked: Asked) -> int:
    """What the prompt counts."""
    keep = {k: v for k, v in asked.body.items() if k in {"messages", "system", "input", "instructions"}}
    return tokens(json.dumps(keep))


def stream(asked: Asked, reply: Reply) -> Iterator[bytes]:
    """The events of an answer, in order; the last one is the end marker."""
    return {"chat": _chat_stream, "responses": _responses_stream, "anthropic": _anthropic_stream}[asked.wire](
        asked, reply
    )


def whole(asked: Asked, reply: Reply) -> dict[str, Any]:
    """The answer as one JSON body."""
    model = reply.model or asked.body["model"]
    if asked.wire == "anthropic":
        content = [{"type": "text", "text": reply.text}] if reply.choices else []
        return {"id": f"msg_{asked.number}", "type": "message", "role": "assistant", "model": model,
                "content": content, "stop_reason": _ANTHROPIC_STOP[reply.finish],
                "usage": _anthropic_usage(asked, reply)}  # fmt: skip
    if asked.wire == "responses":
        return _response_object(asked, reply)
    message = {"role": "assistant", "content": reply.text}
    choices = [{"index": 0, "message": message, "finish_reason": _CHAT_STOP[reply.finish]}] if reply.choices else []
    usage = {"usage": _chat_usage(asked, reply)} if reply.usage else {}
    return {"id": f"chatcmpl-{asked.number}", "object": "chat.completion", "model": model, "choices": choices, **usage}


def error(asked: Asked, kind: str, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error body."""
    if asked.wire == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": f"req_{asked.number}"}
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_event(asked: Asked) -> bytes:
    """An error in the middle of a stream."""
    if asked.wire == "anthropic":
        return _named("error", error(asked, "overloaded_error", "Overloaded"))
    if asked.wire == "responses":
        return _named("error", {"type": "error", "code": "server_error", "message": "The server had an error"})
    return _plain(error(asked, "server_error", "The server had an error while processing your request"))


def _plain(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _named(name: str, data: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\n" + _plain(data)


_CHAT_STOP = {"stop": "stop", "length": "length", "refusal": "content_filter"}
_ANTHROPIC_STOP = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}


def _chat_usage(asked: Asked, reply: Reply) -> dict[str, Any]:
    prompt, thought = input_tokens(asked), tokens(reply.reasoning)
    output = tokens(reply.text) + thought
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _chat_stream(asked: Asked, reply: Reply) -> Iterator[bytes]:
    head = {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": reply.model or asked.body["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _plain({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    if reply.choices:
        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(reply.reasoning):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(reply.text):
            yield chunk({"refusal" if reply.finish == "refusal" else "content": piece})
        yield chunk({}, _CHAT_STOP[reply.finish])
    else:
        yield _plain({**head, "choices": []})
    if reply.usage and asked.body.get("stream_options", {}).get("include_usage"):
        yield _plain({**head, "choices": [], "usage": _chat_usage(asked, reply)})
    yield b"data: [DONE]\n\n"


def _response_object(asked: Asked, reply: Reply) -> dict[str, Any]:
    part = {"type": "output_text", "text": reply.text, "annotations": []}
    if reply.finish == "refusal":
        part = {"type": "refusal", "refusal": reply.text}
    output = [{"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}] if reply.choices else []
    prompt, thought = input_tokens(asked), tokens(reply.reasoning)
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": tokens(reply.text) + thought,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + tokens(reply.text) + thought,
    }
    return {
        "id": f"resp_{asked.number}",
        "object": "response",
        "model": reply.model or asked.body["model"],
        "status": "incomplete" if reply.finish == "length" else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if reply.finish == "length" else None,
        "output": output,
        **({"usage": usage} if reply.usage else {}),
    }


def _responses_stream(asked: Asked, reply: Reply) -> Iterator[bytes]:
    sequence = 0

    def event(kind: str, **data: Any) -> bytes:
        nonlocal sequence
        sequence += 1
        return _named(kind, {"type": kind, "sequence_number": sequence, **data})

    done = _response_object(asked, reply)
    yield event("response.created", response={**done, "status": "in_progress", "output": []})
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    if reply.choices:
        for piece in pieces(reply.reasoning):
            yield event("response.reasoning_summary_text.delta", delta=piece, item_id="rs_1", output_index=0)
        kind = "response.refusal.delta" if reply.finish == "refusal" else "response.output_text.delta"
        for piece in pieces(reply.text):
            yield event(kind, delta=piece, **where)
    end = "response.incomplete" if reply.finish == "length" else "response.completed"
    yield event(end, response=done)


def _anthropic_usage(asked: Asked, reply: Reply) -> dict[str, int]:
    return {
        "input_tokens": input_tokens(asked),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": tokens(reply.text) + tokens(reply.reasoning),
    }


def _anthropic_stream(asked: Asked, reply: Reply) -> Iterator[bytes]:
    usage = _anthropic_usage(asked, reply)
    message: dict[str, Any] = {
        "id": f"msg_{asked.number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or asked.body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        **({"usage": {**usage, "output_tokens": 1}} if reply.usage else {}),
    }
    yield _named("message_start", {"type": "message_start", "message": message})
    yield _named("ping", {"type": "ping"})
    blocks = [("thinking", reply.reasoning), ("text", reply.text)] if reply.choices else []
    for index, (kind, text) in enumerate((k, t) for k, t in blocks if t):
        start = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        yield _named("content_block_start", {"type": "content_block_start", "index": index, "content_block": start})
        for piece in pieces(text):
            delta = {"type": f"{kind}_delta", kind: piece}
            yield _named("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
        yield _named("content_block_stop", {"type": "content_block_stop", "index": index})
    stop = {"stop_reason": _ANTHROPIC_STOP[reply.finish], "stop_sequence": None}
    counted = {"usage": {"output_tokens": usage["output_tokens"]}} if reply.usage else {}
    yield _named("message_delta", {"type": "message_delta", "delta": stop, **counted})
    yield _named("message_stop", {"type": "message_stop"})
