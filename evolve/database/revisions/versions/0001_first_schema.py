"""The first schema: runs, programs, verdicts, populations, ledger, events and mail.

Revision: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table; those that others refer to first."""
    _runs_and_texts()
    _programs()
    _verdicts()
    _artifacts_and_duels()
    _population()
    _model_calls()
    _dialogues()
    _books()
    _steps()
    _mail()


def _runs_and_texts() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("task_name", sa.Text(), nullable=False),
        sa.Column("task_hash", sa.String(length=64), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("heartbeat_at", sa.Float(), nullable=False),
        sa.Column("active_s", sa.Float(), nullable=False),
        sa.Column("best", sa.Integer(), nullable=True),
        sa.Column("migration_round", sa.Integer(), nullable=False),
        sa.Column("promised", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_table(
        "texts",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_texts_run_id"),
        sa.PrimaryKeyConstraint("run_id", "hash", name="pk_texts"),
    )


def _programs() -> None:
    op.create_table(
        "programs",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source_hash", sa.String(length=64), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("language", sa.String(length=20), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("proposer", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("parents", sa.Text(), nullable=False),
        sa.Column("inspirations", sa.Text(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("placement", sa.String(length=20), nullable=True),
        sa.Column("finish_order", sa.Integer(), nullable=True),
        sa.Column("duplicate_of", sa.Integer(), nullable=True),
        sa.Column("variant_of", sa.Integer(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("judged_at", sa.Float(), nullable=True),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "text_hash"], ["texts.run_id", "texts.hash"], name="fk_programs_run_id_text_hash"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_programs_run_id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_programs"),
        sa.UniqueConstraint("run_id", "finish_order", name="uq_programs_run_id_finish_order"),
    )
    op.create_index(
        "ix_programs_unfinished",
        "programs",
        ["run_id", "number"],
        unique=False,
        sqlite_where=sa.text("state <> 'finished'"),
        postgresql_where=sa.text("state <> 'finished'"),
    )
    op.create_index(
        "uq_programs_judged_source",
        "programs",
        ["run_id", "source_hash", "language"],
        unique=True,
        sqlite_where=sa.text("duplicate_of IS NULL"),
        postgresql_where=sa.text("duplicate_of IS NULL"),
    )


def _verdicts() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("program", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("sandbox", sa.String(length=20), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("stage", sa.String(length=20), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("speedup_low", sa.Float(), nullable=True),
        sa.Column("speedup", sa.Float(), nullable=True),
        sa.Column("speedup_high", sa.Float(), nullable=True),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("judge_failed", sa.Boolean(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("build_s", sa.Float(), nullable=False),
        sa.Column("device_s", sa.Float(), nullable=False),
        sa.Column("wall_s", sa.Float(), nullable=False),
        sa.Column("environment_hash", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "environment_hash"],
            ["texts.run_id", "texts.hash"],
            name="fk_evaluations_run_id_environment_hash",
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "program"], ["programs.run_id", "programs.number"], name="fk_evaluations_run_id_program"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_evaluations_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
        sa.UniqueConstraint(
            "run_id", "program", "kind", "device_class", name="uq_evaluations_run_id_program_kind_device_class"
        ),
    )
    op.create_table(
        "profiles",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("program", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("bottleneck", sa.String(length=20), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "program"], ["programs.run_id", "programs.number"], name="fk_profiles_run_id_program"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_profiles_run_id"),
        sa.PrimaryKeyConstraint("run_id", "program", name="pk_profiles"),
    )
    op.create_table(
        "timings",
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("split", sa.String(length=20), nullable=False),
        sa.Column("call_us_low", sa.Float(), nullable=False),
        sa.Column("call_us", sa.Float(), nullable=False),
        sa.Column("call_us_high", sa.Float(), nullable=False),
        sa.Column("strongest", sa.Text(), nullable=True),
        sa.Column("ratio_low", sa.Float(), nullable=True),
        sa.Column("ratio", sa.Float(), nullable=True),
        sa.Column("ratio_high", sa.Float(), nullable=True),
        sa.Column("floor_us", sa.Float(), nullable=True),
        sa.Column("prepare_ms", sa.Float(), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluations.id"], name="fk_timings_evaluation_id"),
        sa.PrimaryKeyConstraint("evaluation_id", "workload", name="pk_timings"),
    )


def _artifacts_and_duels() -> None:
    op.create_table(
        "artifacts",
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluations.id"], name="fk_artifacts_evaluation_id"),
        sa.ForeignKeyConstraint(
            ["run_id", "text_hash"], ["texts.run_id", "texts.hash"], name="fk_artifacts_run_id_text_hash"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_artifacts_run_id"),
        sa.PrimaryKeyConstraint("evaluation_id", "position", name="pk_artifacts"),
    )
    op.create_table(
        "duels",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("challenger", sa.Integer(), nullable=False),
        sa.Column("occupant", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("ratio_low", sa.Float(), nullable=True),
        sa.Column("ratio", sa.Float(), nullable=True),
        sa.Column("ratio_high", sa.Float(), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "challenger"], ["programs.run_id", "programs.number"], name="fk_duels_run_id_challenger"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "occupant"], ["programs.run_id", "programs.number"], name="fk_duels_run_id_occupant"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_duels_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_duels"),
        sa.UniqueConstraint("run_id", "challenger", "occupant", name="uq_duels_run_id_challenger_occupant"),
    )


def _population() -> None:
    op.create_table(
        "islands",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("finished", sa.Integer(), nullable=False),
        sa.Column("stagnant", sa.Integer(), nullable=False),
        sa.Column("resets", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_islands_run_id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_islands"),
    )
    op.create_table(
        "cells",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("island", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cell", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("program", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "island"], ["islands.run_id", "islands.number"], name="fk_cells_run_id_island"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "program"], ["programs.run_id", "programs.number"], name="fk_cells_run_id_program"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_cells_run_id"),
        sa.PrimaryKeyConstraint("run_id", "island", "cell", name="pk_cells"),
    )
    op.create_table(
        "migrations",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("target", sa.Integer(), nullable=False),
        sa.Column("program", sa.Integer(), nullable=False),
        sa.Column("placement", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "program"], ["programs.run_id", "programs.number"], name="fk_migrations_run_id_program"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_migrations_run_id"),
        sa.PrimaryKeyConstraint("run_id", "round", "source", name="pk_migrations"),
    )


def _model_calls() -> None:
    op.create_table(
        "model_calls",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("program", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(length=20), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("system_hash", sa.String(length=64), nullable=False),
        sa.Column("messages_hash", sa.String(length=64), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("worst_dollars", sa.Float(), nullable=True),
        sa.Column("worst_tokens", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("completion_hash", sa.String(length=64), nullable=True),
        sa.Column("reasoning_hash", sa.String(length=64), nullable=True),
        sa.Column("finish", sa.String(length=20), nullable=False),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.Column("scope", sa.String(length=20), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("reported_model", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("quirks", sa.Text(), nullable=False),
        sa.Column("tokens_in", sa.Integer(), nullable=False),
        sa.Column("tokens_cached", sa.Integer(), nullable=False),
        sa.Column("tokens_cache_write", sa.Integer(), nullable=False),
        sa.Column("tokens_out", sa.Integer(), nullable=False),
        sa.Column("tokens_reasoning", sa.Integer(), nullable=False),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("dollars", sa.Float(), nullable=True),
        sa.Column("wall_s", sa.Float(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "system_hash"], ["texts.run_id", "texts.hash"], name="fk_model_calls_run_id_system_hash"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "messages_hash"], ["texts.run_id", "texts.hash"], name="fk_model_calls_run_id_messages_hash"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "completion_hash"], ["texts.run_id", "texts.hash"], name="fk_model_calls_run_id_completion_hash"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "reasoning_hash"], ["texts.run_id", "texts.hash"], name="fk_model_calls_run_id_reasoning_hash"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_model_calls_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_model_calls"),
        sa.UniqueConstraint("run_id", "program", "step", "attempt", name="uq_model_calls_run_id_program_step_attempt"),
    )
    op.create_index(
        "uq_model_calls_answer",
        "model_calls",
        ["run_id", "program", "step"],
        unique=True,
        sqlite_where=sa.text("status = 'answered'"),
        postgresql_where=sa.text("status = 'answered'"),
    )


def _dialogues() -> None:
    op.create_table(
        "dialogues",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("proposer", sa.Text(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Integer(), nullable=False),
        sa.Column("inspirations", sa.Text(), nullable=False),
        sa.Column("language", sa.String(length=20), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("learnt", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "parent"], ["programs.run_id", "programs.number"], name="fk_dialogues_run_id_parent"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_dialogues_run_id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_dialogues"),
    )


def _books() -> None:
    op.create_table(
        "ledger",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("program", sa.Integer(), nullable=True),
        sa.Column("device_s", sa.Float(), nullable=False),
        sa.Column("dollars", sa.Float(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("build_s", sa.Float(), nullable=False),
        sa.Column("wall_s", sa.Float(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_ledger_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_ledger"),
    )
    op.create_index("ix_ledger_run_id", "ledger", ["run_id"], unique=False)
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(length=30), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("program", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_events_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_run_id", "events", ["run_id"], unique=False)


def _steps() -> None:
    op.create_table(
        "steps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("program", sa.Integer(), nullable=True),
        sa.Column("other", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_steps_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_steps"),
    )
    op.create_index("ix_steps_run_id", "steps", ["run_id"], unique=False)


def _mail() -> None:
    op.create_table(
        "leases",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Integer(), nullable=False),
        sa.Column("inspirations", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "parent"], ["programs.run_id", "programs.number"], name="fk_leases_run_id_parent"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_leases_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_leases"),
    )
    op.create_index("ix_leases_run_id", "leases", ["run_id"], unique=False)
    op.create_table(
        "answers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("language", sa.String(length=20), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("island", sa.Integer(), nullable=True),
        sa.Column("parents", sa.Text(), nullable=False),
        sa.Column("inspirations", sa.Text(), nullable=False),
        sa.Column("late_s", sa.Float(), nullable=True),
        sa.Column("told_at", sa.Float(), nullable=False),
        sa.Column("program", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id", "text_hash"], ["texts.run_id", "texts.hash"], name="fk_answers_run_id_text_hash"
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "program"], ["programs.run_id", "programs.number"], name="fk_answers_run_id_program"
        ),
        sa.ForeignKeyConstraint(["lease"], ["leases.id"], name="fk_answers_lease"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_answers_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_answers"),
        sa.UniqueConstraint("lease", name="uq_answers_lease"),
    )
    op.create_index("ix_answers_run_id", "answers", ["run_id"], unique=False)
    op.create_table(
        "steering",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("argument", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_steering_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_steering"),
    )
    op.create_index("ix_steering_run_id", "steering", ["run_id"], unique=False)
