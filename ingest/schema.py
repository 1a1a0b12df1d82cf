"""The catalog's tables.

    collections ─┬─ documents ── versions ── passages ··· vectors     what is searched (by content hash)
                 ├─ generations                                       what was published from it
                 └─ items ── uploads                                  what was accepted and is not done yet
                      └── jobs

A version is one reading of one upload, and never changes; `documents` says which version of a document is published.
The columns `owner`, `fence` and `leased_until` are explained in `leases.py`. Times are seconds since the epoch.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

# SQLite counts rows by itself only in a column that is called INTEGER.
_Serial = BigInteger().with_variant(Integer(), "sqlite")

collections = Table(
    "collections",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("name", String(64), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("generation", Integer),
    # Counts publishers: each takes the next number, which is its fencing number and its generation's number.
    Column("fence", Integer, nullable=False, default=0),
    Column("owner", String(200)),
    Column("leased_until", Float(53), nullable=False, default=0.0),
    # Seconds that the last publish took; the next one waits a multiple of it, so that big collections coalesce more.
    Column("publish_took", Float(53), nullable=False, default=0.0),
    # Set where the documents stand but the generation must be made anew: another embedder, or somebody asked for it.
    Column("stale", Integer, nullable=False, default=0),
    Index("collections_by_name", "tenant", "name", unique=True),
)

generations = Table(
    "generations",
    metadata,
    Column("collection_id", String(32), primary_key=True),
    Column("number", Integer, primary_key=True),
    # Relative to the folder of generations, so that each machine may mount that where it likes.
    Column("folder", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("embedder", Text, nullable=False),
    Column("chunker", Text, nullable=False),
    Column("documents", Integer, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("published", Float(53), nullable=False),
    Column("superseded", Float(53)),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("collection", String(64), nullable=False),
    Column("collection_id", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("total", Integer, nullable=False),
    Column("accepted", Float(53), nullable=False),
    Index("jobs_by_tenant", "tenant", "accepted"),
)

items = Table(
    "items",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("job_id", String(32), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("collection_id", String(32), nullable=False),
    Column("document_id", String(32), nullable=False),
    Column("name", Text, nullable=False),
    Column("action", String(16), nullable=False),
    Column("media_type", Text),
    Column("metadata", Text, nullable=False, default="{}"),
    Column("content_hash", String(64), nullable=False, default=""),
    Column("size", Integer, nullable=False, default=0),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False, default=""),
    Column("generation", Integer),
    Column("planned", Integer),
    Column("attempts", Integer, nullable=False, default=0),
    Column("owner", String(200)),
    Column("fence", Integer, nullable=False, default=0),
    Column("leased_until", Float(53), nullable=False, default=0.0),
    Column("updated", Float(53), nullable=False),
    Index("items_by_job", "job_id", "ordinal"),
    Index("items_by_job_state", "job_id", "state"),
    Index("items_by_state", "state", "collection_id", "id"),
    Index("items_by_document", "collection_id", "document_id", "id"),
)

uploads = Table(
    "uploads",
    metadata,
    Column("item_id", BigInteger, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("collection_id", String(32), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("version_id", BigInteger, nullable=False),
    Column("updated", Float(53), nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("collection_id", String(32), nullable=False),
    Column("document_id", String(32), nullable=False),
    Column("name", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("language", String(16)),
    Column("metadata", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    # The parsed blocks, as compressed JSON, so that another chunker need not parse again.
    Column("blocks", LargeBinary, nullable=False),
    Column("chunker", Text, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Index("versions_by_collection", "collection_id", "id"),
)

passages = Table(
    "passages",
    metadata,
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

vectors = Table(
    "vectors",
    metadata,
    Column("embedder", String(128), primary_key=True),
    Column("content_hash", String(64), primary_key=True),
    # Row of float32, little-endian.
    Column("vector", LargeBinary, nullable=False),
)
