"""Run by alembic for every command; the connection is handed over by :mod:`evolve.database.versions`."""

from alembic import context

from evolve.database.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
