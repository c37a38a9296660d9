"""Run by alembic for every command, on the connection that ironic_rs.db.migration gives."""

from __future__ import annotations

from alembic import context
from ironic_rs.db import migration, models

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=models.Base.metadata,
    version_table=migration.VERSION_TABLE,
    include_name=migration.is_ours,
    render_item=migration.frozen_type,
    render_as_batch=True,
    # SQLite has transactional DDL: an interrupted upgrade leaves nothing behind.
    transactional_ddl=context.config.attributes["transactional"],
)
with context.begin_transaction():
    context.run_migrations()
