"""Alembic's side of the schema. ``REVISIONS`` names every revision, oldest first; the last one is what we read.

Kept here as plain data so that opening a database does not import alembic.
"""

REVISIONS = ("0001", "0002")
