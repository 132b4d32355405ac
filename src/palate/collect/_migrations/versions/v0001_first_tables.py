"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")

    def text(name: str, *, null: bool = False) -> sa.Column[str]:
        return sa.Column(name, sa.Text, nullable=null)

    def person(table: str, *, null: bool = False) -> sa.Column[str]:
        key = sa.ForeignKey("participants.id", name=f"fk_{table}_participant")
        return sa.Column("participant", sa.Text, key, nullable=null)

    op.create_table(
        "participants",
        text("id"),
        text("role"),
        text("strata"),
        text("outside", null=True),
        text("consent", null=True),
        text("invited", null=True),
        text("started", null=True),
        text("completed", null=True),
        text("seen", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_participants"),
        sa.UniqueConstraint("outside", name="uq_participants_outside"),
    )
    op.create_table(
        "invitations",
        text("id"),
        text("role"),
        text("kind"),
        text("secret"),
        text("code", null=True),
        text("strata"),
        text("created"),
        text("expires"),
        text("revoked", null=True),
        person("invitations", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.UniqueConstraint("code", name="uq_invitations_code"),
    )
    op.create_table(
        "sessions",
        text("id"),
        person("sessions"),
        sa.Column(
            "invitation", sa.Text, sa.ForeignKey("invitations.id", name="fk_sessions_invitation"), nullable=False
        ),
        text("expires"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_table(
        "items",
        text("id"),
        text("task"),
        sa.Column("position", sa.Integer, nullable=False),
        text("data"),
        sa.Column("active", sa.Boolean, nullable=False),
        person("items", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_items"),
    )
    op.create_table(
        "assignments",
        sa.Column("number", number, autoincrement=True, nullable=False),
        person("assignments"),
        text("task"),
        sa.Column("item", sa.Text, sa.ForeignKey("items.id", name="fk_assignments_item"), nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        text("shown"),
        sa.Column("probability", sa.Float, nullable=True),
        text("created"),
        sa.PrimaryKeyConstraint("number", name="pk_assignments"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("sequence", number, autoincrement=True, nullable=False),
        text("id"),
        person("events"),
        text("kind"),
        text("task"),
        text("item"),
        sa.Column("repeat", sa.Integer, nullable=False),
        text("data"),
        text("date"),
        sa.PrimaryKeyConstraint("sequence", name="pk_events"),
        sa.UniqueConstraint("id", name="uq_events_id"),
        sqlite_autoincrement=True,
    )
    op.create_table("exports", text("path"), text("date"), sa.PrimaryKeyConstraint("path", name="pk_exports"))
    op.create_table(
        "erasures", text("participant"), text("reason"), sa.PrimaryKeyConstraint("participant", name="pk_erasures")
    )
    op.create_table(
        "receipts",
        text("id"),
        text("participant"),
        text("date"),
        text("data"),
        sa.PrimaryKeyConstraint("id", name="pk_receipts"),
    )
    op.create_index("uq_assignments_once", "assignments", ["participant", "item", "repeat"], unique=True)
    for table, column in (
        ("invitations", "participant"),
        ("sessions", "participant"),
        ("sessions", "invitation"),
        ("items", "task"),
        ("items", "participant"),
        ("assignments", "participant"),
        ("assignments", "item"),
        ("events", "participant"),
    ):
        op.create_index(f"ix_{table}_{column}", table, [column])


def downgrade() -> None:
    """There is nothing before these tables."""
    raise NotImplementedError("the first tables cannot be taken back")
