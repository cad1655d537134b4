"""The tables. One database holds any number of runs; every table is keyed by run.

Times (``…_at``) are seconds since the epoch, durations ``…_s`` seconds. JSON is stored as text, so that every backend
holds the same bytes; columns with a length hold words and keys of our own alone. Changes go through a new alembic
revision in ``revisions/versions``.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from evolve.database.columns import metadata, program_key, run_column, text_key
from evolve.database.mail_schema import answers, leases, steering
from evolve.database.model_schema import dialogues, model_calls

__all__ = [
    "answers",
    "artifacts",
    "cells",
    "dialogues",
    "duels",
    "evaluations",
    "events",
    "islands",
    "leases",
    "ledger",
    "metadata",
    "migrations",
    "model_calls",
    "profiles",
    "programs",
    "runs",
    "steering",
    "steps",
    "texts",
    "timings",
]

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("task_name", Text, nullable=False),
    Column("task_hash", String(64), nullable=False),
    Column("settings", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("status", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("heartbeat_at", Float, nullable=False),
    Column("active_s", Float, nullable=False),
    Column("best", Integer),
    Column("migration_round", Integer, nullable=False),
    Column("promised", Integer, nullable=False, server_default="0"),
)

texts = Table(
    "texts",
    metadata,
    run_column(primary_key=True),
    Column("hash", String(64), primary_key=True),
    Column("text", Text, nullable=False),
)

programs = Table(
    "programs",
    metadata,
    run_column(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("source_hash", String(64), nullable=False),
    Column("text_hash", String(64), nullable=False),
    Column("language", String(20), nullable=False),
    Column("operator", Text, nullable=False),
    Column("proposer", Text, nullable=False),
    Column("model", Text),
    Column("note", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("parents", Text, nullable=False),
    Column("inspirations", Text, nullable=False),
    Column("island", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("placement", String(20)),
    Column("finish_order", Integer),
    Column("duplicate_of", Integer),
    Column("variant_of", Integer),
    Column("attempts", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("judged_at", Float),
    Column("finished_at", Float),
    text_key("text_hash"),
    UniqueConstraint("run_id", "finish_order"),
)
Index(
    "uq_programs_judged_source",
    programs.c.run_id,
    programs.c.source_hash,
    programs.c.language,
    unique=True,
    sqlite_where=text("duplicate_of IS NULL"),
    postgresql_where=text("duplicate_of IS NULL"),
)
Index(
    "ix_programs_unfinished",
    programs.c.run_id,
    programs.c.number,
    sqlite_where=text("state <> 'finished'"),
    postgresql_where=text("state <> 'finished'"),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("program", Integer, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("device_class", Text, nullable=False),
    Column("sandbox", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("stage", String(20), nullable=False),
    Column("score", Float),
    Column("speedup_low", Float),
    Column("speedup", Float),
    Column("speedup_high", Float),
    Column("glance_level", Float),
    Column("confirmed", Boolean, nullable=False),
    Column("judge_failed", Boolean, nullable=False),
    Column("message", Text, nullable=False),
    Column("build_s", Float, nullable=False),
    Column("device_s", Float, nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("environment_hash", String(64), nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    program_key("program"),
    text_key("environment_hash"),
    UniqueConstraint("run_id", "program", "kind", "device_class"),
)

timings = Table(
    "timings",
    metadata,
    Column("evaluation_id", ForeignKey("evaluations.id"), primary_key=True),
    Column("workload", Text, primary_key=True),
    Column("split", String(20), nullable=False),
    Column("call_us_low", Float, nullable=False),
    Column("call_us", Float, nullable=False),
    Column("call_us_high", Float, nullable=False),
    Column("strongest", Text),
    Column("ratio_low", Float),
    Column("ratio", Float),
    Column("ratio_high", Float),
    Column("floor_us", Float),
    Column("prepare_ms", Float),
    Column("rounds", Integer, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("evaluation_id", ForeignKey("evaluations.id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    run_column(),
    Column("name", Text, nullable=False),
    Column("text_hash", String(64), nullable=False),
    Column("truncated", Boolean, nullable=False),
    text_key("text_hash"),
)

profiles = Table(
    "profiles",
    metadata,
    run_column(primary_key=True),
    Column("program", Integer, primary_key=True, autoincrement=False),
    Column("device_class", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("bottleneck", String(20)),
    Column("document", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    program_key("program"),
)

duels = Table(
    "duels",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("challenger", Integer, nullable=False),
    Column("occupant", Integer, nullable=False),
    Column("outcome", String(20), nullable=False),
    Column("ratio_low", Float),
    Column("ratio", Float),
    Column("ratio_high", Float),
    Column("document", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    program_key("challenger"),
    program_key("occupant"),
    UniqueConstraint("run_id", "challenger", "occupant"),
)

islands = Table(
    "islands",
    metadata,
    run_column(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("finished", Integer, nullable=False),
    Column("stagnant", Integer, nullable=False),
    Column("resets", Integer, nullable=False),
)

cells = Table(
    "cells",
    metadata,
    run_column(primary_key=True),
    Column("island", Integer, primary_key=True, autoincrement=False),
    Column("cell", Integer, primary_key=True, autoincrement=False),
    Column("program", Integer, nullable=False),
    ForeignKeyConstraint(["run_id", "island"], ["islands.run_id", "islands.number"]),
    program_key("program"),
)

migrations = Table(
    "migrations",
    metadata,
    run_column(primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("source", Integer, primary_key=True, autoincrement=False),
    Column("target", Integer, nullable=False),
    Column("program", Integer, nullable=False),
    Column("placement", String(20), nullable=False),
    program_key("program"),
)

ledger = Table(
    "ledger",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("kind", String(20), nullable=False),
    Column("program", Integer),
    Column("device_s", Float, nullable=False),
    Column("dollars", Float, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("build_s", Float, nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("created_at", Float, nullable=False),
    Index(None, "run_id"),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("at", Float, nullable=False),
    Column("kind", String(30), nullable=False),
    Column("text", Text, nullable=False),
    Column("program", Integer),
    Index(None, "run_id"),
)

steps = Table(
    "steps",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("kind", String(20), nullable=False),
    Column("program", Integer),
    Column("other", Integer),
    Column("text", Text, nullable=False),
    Index(None, "run_id"),
)
