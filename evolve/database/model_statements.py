"""The writing statements that run for every request to a model. All take the parameter ``run``."""

from __future__ import annotations

from sqlalchemy import bindparam, func, insert, select, update

from evolve.database.model_records import PROGRAM, CallStatus
from evolve.database.schema import dialogues, model_calls

_ENDED = (
    "status",
    "completion_hash",
    "reasoning_hash",
    "finish",
    "failure",
    "scope",
    "message",
    "http_status",
    "reported_model",
    "request_id",
    "quirks",
    "tokens_in",
    "tokens_cached",
    "tokens_cache_write",
    "tokens_out",
    "tokens_reasoning",
    "estimated",
    "dollars",
    "wall_s",
    "ended_at",
)

LAST_ATTEMPT = select(func.max(model_calls.c.attempt)).where(
    model_calls.c.run_id == bindparam("run"),
    model_calls.c.program == bindparam("program"),
    model_calls.c.step == bindparam("step"),
)
ADD_MODEL_CALL = insert(model_calls).returning(model_calls.c.id)
END_MODEL_CALL = (
    update(model_calls)
    .where(
        model_calls.c.run_id == bindparam("run"),
        model_calls.c.id == bindparam("this"),
        model_calls.c.status == CallStatus.OPEN.value,
    )
    .values({name: bindparam(f"new_{name}") for name in _ENDED})
)
ADD_DIALOGUE = insert(dialogues)
END_BY_PROGRAM = (
    update(dialogues)
    .where(
        dialogues.c.run_id == bindparam("run"),
        dialogues.c.number == bindparam("this"),
        dialogues.c.outcome.is_(None),
    )
    .values(outcome=PROGRAM, ended_at=bindparam("now"))
)
