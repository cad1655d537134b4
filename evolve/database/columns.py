"""What all tables share: where they are registered, and the columns that tie them to runs and programs."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, ForeignKeyConstraint, MetaData

MOST = 2**31 - 1
"""The largest number that an integer column holds everywhere: whoever asks for more asks for nothing there is."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def run_column(*, primary_key: bool = False) -> Column[int]:
    """The run that a row belongs to."""
    return Column("run_id", ForeignKey("runs.id"), nullable=False, primary_key=primary_key)


def program_key(name: str) -> ForeignKeyConstraint:
    """Ties the column ``name`` to a program of the row's run."""
    return ForeignKeyConstraint(["run_id", name], ["programs.run_id", "programs.number"])


def text_key(name: str) -> ForeignKeyConstraint:
    """Ties the column ``name`` to a text of the row's run."""
    return ForeignKeyConstraint(["run_id", name], ["texts.run_id", "texts.hash"])
