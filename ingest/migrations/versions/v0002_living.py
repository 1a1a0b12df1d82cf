"""An index that changes while it serves: deltas, compaction, pins, readers, roll back; jobs that tell more."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Float, Integer, String, Text, text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds columns, each with a default, and tables."""
    for table, columns in _added().items():
        for column in columns:
            op.add_column(table, column)
    op.create_index("jobs_by_key", "jobs", ["tenant", "idempotency_key"], unique=True)
    op.create_index("jobs_by_webhook", "jobs", ["webhook_state", "webhook_due"])
    op.create_index("documents_by_since", "documents", ["collection_id", "since"])
    _create_tables()


def _added() -> dict[str, list[Column[object]]]:
    return {
        "collections": [
            Column("compacting_owner", String(200)),
            _number("compacting_fence"),
            _seconds("compacting_until"),
            Column("compacting_from", Integer),
            Column("compacted", Text),
            _number("compact"),
            _text("options", "'{}'"),
        ],
        "generations": [
            _number("pinned"),
            _number("withdrawn"),
            _text("segments", "'[]'"),
            _number("base_passages"),
            _number("delta_passages"),
        ],
        "jobs": [
            Column("idempotency_key", String(200)),
            Column("request_hash", String(64)),
            Column("webhook", Text),
            Column("webhook_state", String(16), nullable=False, server_default=text("''")),
            _number("webhook_attempts"),
            _seconds("webhook_due"),
            _text("webhook_reason", "''"),
        ],
        "items": [
            _text("access", "'[]'"),
            _text("options", "'{}'"),
            Column("parsed", Float(53)),
            Column("encoded", Float(53)),
            _number("passages"),
            _text("warnings", "'[]'"),
        ],
        "documents": [_number("since")],
        "versions": [_text("access", "'[]'")],
        "passages": [_text("parent", "''"), _number("start")],
    }


def _create_tables() -> None:
    op.create_table(
        "readers",
        Column("process", String(200), primary_key=True),
        Column("collection_id", String(32), primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("until", Float(53), nullable=False),
    )
    op.create_index("readers_by_collection", "readers", ["collection_id", "number"])
    op.create_table(
        "history",
        Column("collection_id", String(32), primary_key=True),
        Column("document_id", String(32), primary_key=True),
        Column("since", Integer, primary_key=True, autoincrement=False),
        Column("until", Integer, nullable=False),
        Column("version_id", BigInteger, nullable=False),
        Column("updated", Float(53), nullable=False),
    )
    op.create_index("history_by_until", "history", ["collection_id", "until"])
    op.create_index("history_by_version", "history", ["version_id"])
    op.create_table(
        "origins",
        Column("collection_id", String(32), primary_key=True),
        Column("document_id", String(32), primary_key=True),
        Column("url", Text, nullable=False),
        Column("etag", Text),
        Column("last_modified", Text),
        Column("checked", Float(53), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("root", Text, nullable=False, server_default=text("''")),
        Column("version_id", BigInteger),
    )
    op.create_index("origins_by_root", "origins", ["collection_id", "root"])


def _number(name: str) -> Column[object]:
    return Column(name, Integer, nullable=False, server_default="0")


def _seconds(name: str) -> Column[object]:
    return Column(name, Float(53), nullable=False, server_default="0")


def _text(name: str, default: str) -> Column[object]:
    return Column(name, Text, nullable=False, server_default=text(default))
