"""Reading what was said to language models and what it cost. All take the parameter ``run``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, and_, bindparam, case, func, select

from evolve.database.model_records import CallStatus
from evolve.database.schema import dialogues, model_calls, texts


def _select_model_calls() -> Select[*tuple[Any, ...]]:
    named = {name: texts.alias(f"{name}_text") for name in ("system", "messages", "completion", "reasoning")}
    joined: Any = model_calls
    for name, text in named.items():
        stored = and_(text.c.run_id == model_calls.c.run_id, text.c.hash == model_calls.c[f"{name}_hash"])
        joined = joined.outerjoin(text, stored)
    columns = [text.c.text.label(name) for name, text in named.items()]
    return (
        select(*model_calls.c, *columns)
        .select_from(joined)
        .where(model_calls.c.run_id == bindparam("run"))
        .order_by(model_calls.c.id)
    )


MODEL_CALLS = _select_model_calls()
DIALOGUE_CALLS = MODEL_CALLS.where(model_calls.c.program == bindparam("program"))
MODEL_ANSWER = DIALOGUE_CALLS.where(
    model_calls.c.step == bindparam("step"),
    model_calls.c.status == CallStatus.ANSWERED.value,
)

OPEN_DIALOGUES = (
    select(dialogues)
    .where(dialogues.c.run_id == bindparam("run"), dialogues.c.outcome.is_(None))
    .order_by(dialogues.c.number)
)
DIALOGUES = select(dialogues).where(dialogues.c.run_id == bindparam("run")).order_by(dialogues.c.number)

DIALOGUE_DOLLARS = (
    select(model_calls.c.program, func.coalesce(func.sum(model_calls.c.dollars), 0.0).label("dollars"))
    .where(model_calls.c.run_id == bindparam("run"))
    .group_by(model_calls.c.program)
)
DOLLARS_OF_ONE = DIALOGUE_DOLLARS.where(model_calls.c.program == bindparam("this"))


def _count(condition: Any) -> Any:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _select_spending() -> Select[*tuple[Any, ...]]:
    calls = model_calls.c
    tokens_in = calls.tokens_in + calls.tokens_cached + calls.tokens_cache_write
    return (
        select(
            calls.model,
            calls.operator,
            func.count().label("requests"),
            _count(calls.status == CallStatus.ANSWERED.value).label("answers"),
            _count(calls.status == CallStatus.FAILED.value).label("failures"),
            _count(calls.status.in_([CallStatus.OPEN.value, CallStatus.LOST.value])).label("open"),
            func.coalesce(func.sum(tokens_in), 0).label("tokens_in"),
            func.coalesce(func.sum(calls.tokens_out), 0).label("tokens_out"),
            func.coalesce(func.sum(calls.dollars), 0.0).label("dollars"),
            _count(and_(calls.dollars.is_(None), (tokens_in + calls.tokens_out) > 0)).label("unpriced"),
            _count(calls.estimated).label("estimated"),
        )
        .where(calls.run_id == bindparam("run"))
        .group_by(calls.model, calls.operator)
        .order_by(calls.model, calls.operator)
    )


MODEL_SPENDING = _select_spending()
