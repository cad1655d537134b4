"""The tables that others than the search process write: leases, answers and orders."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from evolve.database.columns import metadata, program_key, run_column, text_key

leases = Table(
    "leases",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("agent", Text, nullable=False),
    Column("island", Integer, nullable=False),
    Column("parent", Integer, nullable=False),
    Column("inspirations", Text, nullable=False),
    Column("asked_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    program_key("parent"),
    Index(None, "run_id"),
)

answers = Table(
    "answers",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("lease", ForeignKey("leases.id")),
    Column("agent", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("language", String(20), nullable=False),
    Column("text_hash", String(64), nullable=False),
    Column("note", Text, nullable=False),
    Column("island", Integer),
    Column("parents", Text, nullable=False),
    Column("inspirations", Text, nullable=False),
    Column("late_s", Float),
    Column("told_at", Float, nullable=False),
    Column("program", Integer),
    text_key("text_hash"),
    program_key("program"),
    UniqueConstraint("lease"),
    Index(None, "run_id"),
)

steering = Table(
    "steering",
    metadata,
    Column("id", Integer, primary_key=True),
    run_column(),
    Column("at", Float, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("text", Text, nullable=False),
    Column("argument", Text, nullable=False),
    Index(None, "run_id"),
)
