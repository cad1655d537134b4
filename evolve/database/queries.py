"""The larger queries, built once: SQLAlchemy then compiles each only once a process. All take the parameter ``run``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, and_, bindparam, case, func, or_, select

from evaluators.evaluation import DuelOutcome
from evolve.database.schema import (
    answers,
    artifacts,
    duels,
    evaluations,
    leases,
    profiles,
    programs,
    runs,
    steering,
    texts,
)
from evolve.types import ProgramState

SEARCH, CONFIRMATION = "search", "confirmation"
"""The two kinds of evaluation a program can have."""

_first, _second = evaluations.alias("first"), evaluations.alias("second")


def _verdict(table: Any, kind: str) -> Any:
    """Joins a program with its evaluation: a duplicate with its original's, once it is finished itself."""
    judged_as = func.coalesce(programs.c.duplicate_of, programs.c.number)
    return and_(
        table.c.run_id == programs.c.run_id,
        table.c.program == judged_as,
        table.c.kind == kind,
        programs.c.state != ProgramState.QUEUED.value,
    )


def _profiled() -> Any:
    """Joins a program with its profile: a duplicate with its original's, once it is finished itself."""
    judged_as = func.coalesce(programs.c.duplicate_of, programs.c.number)
    return and_(
        profiles.c.run_id == programs.c.run_id,
        profiles.c.program == judged_as,
        programs.c.state != ProgramState.QUEUED.value,
    )


def _stored(table: Any, run_id: Any, key: Any) -> Any:
    return and_(table.c.run_id == run_id, table.c.hash == key)


def _select_programs() -> Select[*tuple[Any, ...]]:
    first_env, second_env, source = texts.alias("first_env"), texts.alias("second_env"), texts.alias("source")
    joined = (
        programs.join(source, _stored(source, programs.c.run_id, programs.c.text_hash))
        .outerjoin(_first, _verdict(_first, SEARCH))
        .outerjoin(first_env, _stored(first_env, _first.c.run_id, _first.c.environment_hash))
        .outerjoin(_second, _verdict(_second, CONFIRMATION))
        .outerjoin(second_env, _stored(second_env, _second.c.run_id, _second.c.environment_hash))
        .outerjoin(profiles, _profiled())
    )
    columns = (
        *programs.c,
        source.c.text.label("source"),
        _first.c.id.label("evaluation_id"),
        _first.c.document.label("evaluation"),
        first_env.c.text.label("environment"),
        _first.c.judge_failed.label("judge_failed"),
        _second.c.id.label("confirmation_id"),
        _second.c.document.label("confirmation"),
        second_env.c.text.label("confirmation_environment"),
        _second.c.judge_failed.label("confirmation_judge_failed"),
        profiles.c.document.label("profile"),
    )
    return select(*columns).select_from(joined).where(programs.c.run_id == bindparam("run"))


def _select_table() -> Select[*tuple[Any, ...]]:
    def stands(name: str) -> Any:
        """Of the verdict that stands: the second where there is one."""
        return case((_second.c.id.is_not(None), _second.c[name]), else_=_first.c[name]).label(name)

    before = programs.c["number", "island", "generation", "operator", "proposer", "model", "language", "state"]
    speed = ("speedup_low", "speedup", "speedup_high", "glance_level")
    verdict = ("status", "stage", "score", *speed, "message", "device_class")
    after = programs.c["placement", "finish_order", "duplicate_of", "variant_of", "parents", "note", "source_hash"]
    return (
        select(
            *before,
            *(stands(name) for name in verdict),
            func.coalesce(_second.c.confirmed, _first.c.confirmed).label("confirmed"),
            (func.coalesce(_first.c.device_s, 0.0) + func.coalesce(_second.c.device_s, 0.0)).label("device_s"),
            *after,
            *programs.c["created_at", "judged_at", "finished_at"],
        )
        .select_from(
            programs.outerjoin(_first, _verdict(_first, SEARCH)).outerjoin(_second, _verdict(_second, CONFIRMATION))
        )
        .where(programs.c.run_id == bindparam("run"))
        .order_by(programs.c.number)
    )


def _select_outcomes() -> Select[*tuple[Any, ...]]:
    """What came of every finished program that says something about its author's idea."""

    def stands(name: str) -> Any:
        return case((_second.c.id.is_not(None), _second.c[name]), else_=_first.c[name]).label(name)

    return (
        select(
            *programs.c["number", "island", "parents", "operator", "proposer", "note", "details"],
            *programs.c["model", "variant_of", "placement"],
            *(stands(name) for name in ("status", "score", "message", "speedup_low", "speedup_high", "glance_level")),
            _second.c.id.is_not(None).label("confirmed_later"),
        )
        .select_from(
            programs.join(_first, _verdict(_first, SEARCH)).outerjoin(_second, _verdict(_second, CONFIRMATION))
        )
        .where(
            programs.c.run_id == bindparam("run"),
            programs.c.state == ProgramState.FINISHED.value,
            programs.c.duplicate_of.is_(None),
            _first.c.judge_failed.is_(False),
            func.coalesce(_second.c.judge_failed, False).is_(False),
        )
        .order_by(programs.c.finish_order)
    )


def _select_verdicts() -> Select[*tuple[Any, ...]]:
    """Finished programs by verdict, duplicates not counted, and how many of each finished after the best did."""
    status = func.coalesce(_second.c.status, _first.c.status)
    best = (
        select(programs.c.finish_order)
        .join(runs, and_(runs.c.id == programs.c.run_id, runs.c.best == programs.c.number))
        .where(runs.c.id == bindparam("run"))
        .scalar_subquery()
    )
    later = case((programs.c.finish_order > func.coalesce(best, 0), 1), else_=0)
    return (
        select(status.label("status"), func.count().label("number"), func.sum(later).label("later"))
        .select_from(
            programs.join(_first, _verdict(_first, SEARCH)).outerjoin(_second, _verdict(_second, CONFIRMATION))
        )
        .where(
            programs.c.run_id == bindparam("run"),
            programs.c.state == ProgramState.FINISHED.value,
            programs.c.duplicate_of.is_(None),
        )
        .group_by(status)
    )


PROGRAMS = _select_programs()
"""Programs with their sources and verdicts, in no order."""

ONE_PROGRAM = PROGRAMS.where(programs.c.number == bindparam("number"))
TABLE = _select_table()
VERDICTS = _select_verdicts()
OUTCOMES = _select_outcomes()

SANDBOXES = (
    select(evaluations.c.sandbox, func.count(evaluations.c.program.distinct()).label("programs"))
    .where(evaluations.c.run_id == bindparam("run"))
    .group_by(evaluations.c.sandbox)
)
"""How many programs were judged at each level of the sandbox, be it once: confirmations count like first verdicts."""

SOURCES = (
    select(programs.c.number, programs.c.language, texts.c.text)
    .join(texts, _stored(texts, programs.c.run_id, programs.c.text_hash))
    .where(
        programs.c.run_id == bindparam("run"),
        programs.c.number > bindparam("after"),
        programs.c.duplicate_of.is_(None),
    )
    .order_by(programs.c.number)
    .limit(bindparam("limit"))
)

FIND = select(programs.c.number, programs.c.state).where(
    programs.c.run_id == bindparam("run"),
    programs.c.source_hash == bindparam("source_hash"),
    programs.c.language == bindparam("language"),
    programs.c.duplicate_of.is_(None),
)

ARTIFACTS = (
    select(artifacts.c.evaluation_id, artifacts.c.name, texts.c.text, artifacts.c.truncated)
    .join(texts, _stored(texts, artifacts.c.run_id, artifacts.c.text_hash))
    .where(artifacts.c.evaluation_id.in_(bindparam("ids", expanding=True)))
    .order_by(artifacts.c.evaluation_id, artifacts.c.position)
)

DUELS = (
    select(duels)
    .where(duels.c.run_id == bindparam("run"), duels.c.challenger == bindparam("challenger"))
    .order_by(duels.c.id)
)

MARGINS = (
    select(*duels.c["challenger", "occupant", "ratio"])
    .join(programs, and_(programs.c.run_id == duels.c.run_id, programs.c.number == duels.c.challenger))
    .where(
        duels.c.run_id == bindparam("run"),
        duels.c.outcome.in_((DuelOutcome.CHALLENGER.value, DuelOutcome.OCCUPANT.value)),
        duels.c.ratio.is_not(None),
    )
    .order_by(duels.c.id)
)

_family: Any = bindparam("number")
FAMILY_MARGINS = MARGINS.where(or_(programs.c.number == _family, programs.c.variant_of == _family))

LEASES = select(leases).where(leases.c.run_id == bindparam("run")).order_by(leases.c.id)

ANSWERS = (
    select(answers, texts.c.text.label("source"))
    .join(texts, _stored(texts, answers.c.run_id, answers.c.text_hash))
    .where(answers.c.run_id == bindparam("run"))
    .order_by(answers.c.id)
)
"""Answers with their sources, oldest first."""

PLACES = (
    select(func.count())
    .select_from(leases.outerjoin(answers, answers.c.lease == leases.c.id))
    .where(
        leases.c.run_id == bindparam("run"),
        or_(
            and_(answers.c.id.is_(None), leases.c.expires_at > bindparam("now")),
            and_(answers.c.program.is_(None), answers.c.id.is_not(None), answers.c.late_s.is_(None)),
        ),
    )
)
"""Leases that are open, or were when they were answered, and are no program yet."""

STEERING = (
    select(*steering.c["id", "kind", "text", "argument", "at"])
    .where(steering.c.run_id == bindparam("run"))
    .order_by(steering.c.id)
)

MAIL_COUNT = select(
    select(func.count()).select_from(answers).where(answers.c.run_id == bindparam("run")).scalar_subquery(),
    select(func.count()).select_from(steering).where(steering.c.run_id == bindparam("run")).scalar_subquery(),
)
"""Asked several times a second. Counts, not the last numbers: those may be committed out of their order."""
