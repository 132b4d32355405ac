"""Whose database it is."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table that holds the name of the project."""
    op.create_table(
        "projects",
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_projects"),
    )


def downgrade() -> None:
    """Forget whose it is."""
    op.drop_table("projects")
