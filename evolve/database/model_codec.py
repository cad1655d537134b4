"""Between the records of talk with language models and rows of the tables. Pure; exact in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from evaluators.task import Language
from evolve.database.model_records import CallStatus, Dialogue, Ending, ModelCall, ModelReply, ModelRequest

Row = dict[str, Any]

_TEXTS = {"system", "messages", "completion", "reasoning"}
"""Stored once, under their hashes."""


def request_row(request: ModelRequest) -> Row:
    """The columns of an open call, but for its texts."""
    asked = {f.name: getattr(request, f.name) for f in fields(request) if f.name not in _TEXTS}
    return {**asked, **reply_row(ModelReply(CallStatus.OPEN)), "wall_s": None}


def reply_row(reply: ModelReply) -> Row:
    """The columns that the end of a call fills in, but for its texts."""
    row = {f.name: getattr(reply, f.name) for f in fields(reply) if f.name not in _TEXTS}
    return {**row, "status": reply.status.value, "quirks": json.dumps(reply.quirks)}


def model_call_of(row: Mapping[str, Any]) -> ModelCall:
    """A call from its row and texts."""
    request = ModelRequest(**{f.name: row[f.name] for f in fields(ModelRequest)})
    reply = None
    if row["status"] != CallStatus.OPEN.value:
        values = {f.name: row[f.name] for f in fields(ModelReply)}
        values |= {
            "status": CallStatus(row["status"]),
            "quirks": tuple(json.loads(row["quirks"])),
            "reasoning": row["reasoning"] or "",
            "wall_s": row["wall_s"] or 0.0,
        }
        reply = ModelReply(**values)
    return ModelCall(row["id"], row["attempt"], request, reply, row["created_at"])


def dialogue_row(dialogue: Dialogue) -> Row:
    """The columns of a dialogue that begins."""
    row = {f.name: getattr(dialogue, f.name) for f in fields(dialogue)}
    return {**row, "inspirations": json.dumps(dialogue.inspirations), "message": "", "learnt": 0}


def dialogue_of(row: Mapping[str, Any]) -> Dialogue:
    """A dialogue from its row."""
    values = {f.name: row[f.name] for f in fields(Dialogue)}
    values["inspirations"] = tuple(json.loads(row["inspirations"]))
    values["language"] = cast(Language, row["language"])
    return Dialogue(**values)


def ending_of(row: Mapping[str, Any]) -> Ending:
    """How a dialogue ended, from its row."""
    return Ending(**{f.name: row[f.name] for f in fields(Ending)})
