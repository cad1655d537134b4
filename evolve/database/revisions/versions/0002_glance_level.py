"""At which level a verdict's interval stands that a glance gave.

Revision: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; verdicts from before had whole looks."""
    op.add_column("evaluations", sa.Column("glance_level", sa.Float(), nullable=True))
