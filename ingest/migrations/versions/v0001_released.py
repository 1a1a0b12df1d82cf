"""The schema as the first release had it: what a database without a version holds already."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

released = MetaData()
_Serial = BigInteger().with_variant(Integer(), "sqlite")

Table(
    "collections",
    released,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("name", String(64), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("generation", Integer),
    Column("fence", Integer, nullable=False),
    Column("owner", String(200)),
    Column("leased_until", Float(53), nullable=False),
    Column("publish_took", Float(53), nullable=False),
    Column("stale", Integer, nullable=False),
    Index("collections_by_name", "tenant", "name", unique=True),
)
Table(
    "generations",
    released,
    Column("collection_id", String(32), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("folder", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("embedder", Text, nullable=False),
    Column("chunker", Text, nullable=False),
    Column("documents", Integer, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("published", Float(53), nullable=False),
    Column("superseded", Float(53)),
)
Table(
    "jobs",
    released,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("collection", String(64), nullable=False),
    Column("collection_id", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("total", Integer, nullable=False),
    Column("accepted", Float(53), nullable=False),
    Index("jobs_by_tenant", "tenant", "accepted"),
)
Table(
    "items",
    released,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("job_id", String(32), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("collection_id", String(32), nullable=False),
    Column("document_id", String(32), nullable=False),
    Column("name", Text, nullable=False),
    Column("action", String(16), nullable=False),
    Column("media_type", Text),
    Column("metadata", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("size", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("generation", Integer),
    Column("planned", Integer),
    Column("attempts", Integer, nullable=False),
    Column("owner", String(200)),
    Column("fence", Integer, nullable=False),
    Column("leased_until", Float(53), nullable=False),
    Column("updated", Float(53), nullable=False),
    Index("items_by_job", "job_id", "ordinal"),
    Index("items_by_job_state", "job_id", "state"),
    Index("items_by_state", "state", "collection_id", "id"),
    Index("items_by_document", "collection_id", "document_id", "id"),
)
Table(
    "uploads",
    released,
    Column("item_id", BigInteger, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
Table(
    "documents",
    released,
    Column("collection_id", String(32), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("version_id", BigInteger, nullable=False),
    Column("updated", Float(53), nullable=False),
)
Table(
    "versions",
    released,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("collection_id", String(32), nullable=False),
    Column("document_id", String(32), nullable=False),
    Column("name", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("language", String(16)),
    Column("metadata", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("blocks", LargeBinary, nullable=False),
    Column("chunker", Text, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Index("versions_by_collection", "collection_id", "id"),
)
Table(
    "passages",
    released,
    Column("version_id", BigInteger, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("source", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("heading", Text, nullable=False),
    Column("page", Integer),
    Column("language", String(16)),
    Column("metadata", Text, nullable=False),
    Index("passages_by_content", "content_hash"),
)
Table(
    "vectors",
    released,
    Column("embedder", String(128), primary_key=True),
    Column("content_hash", String(64), primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)


def upgrade() -> None:
    """Creates the tables."""
    released.create_all(op.get_bind())
