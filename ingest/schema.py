"""The catalog's tables.

    collections ─┬─ documents ── versions ── passages ··· vectors     what is searched (by content hash)
                 ├─ history                                           what kept generations show, and no document now
                 ├─ generations ── readers                            what was published from it, and who reads that
                 ├─ origins                                           where documents came from
                 └─ items ── uploads                                  what was accepted and is not done yet
                      └── jobs

A version is one reading of one upload, and never changes; `documents` says which version of a document is published.
The columns `owner`, `fence` and `leased_until` are explained in `leases.py`. Times are seconds since the epoch.

A change here is a new file in `migrations/versions/`. A column that is added to a table has a default of the
database's own, so that a process of the release before may go on writing rows without it.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text, text

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
    # The lease of whoever compacts: its number is counted apart, since publishing goes on beside it. `compacting_from`
    # is the generation that is being compacted: deltas that it has are not merged with later ones until the base made
    # of it, `compacted` (a segment as JSON), has been published.
    Column("compacting_owner", String(200)),
    Column("compacting_fence", Integer, nullable=False, server_default="0"),
    Column("compacting_until", Float(53), nullable=False, server_default="0"),
    Column("compacting_from", Integer),
    Column("compacted", Text),
    # Set where somebody asked for a compaction that is not due by itself.
    Column("compact", Integer, nullable=False, server_default="0"),
    # What was chosen for this collection alone, as JSON.
    Column("options", Text, nullable=False, server_default="{}"),
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
    # Never pruned while it is set.
    Column("pinned", Integer, nullable=False, server_default="0"),
    # Set where somebody rolled back behind it: it does not serve in a damaged one's place.
    Column("withdrawn", Integer, nullable=False, server_default="0"),
    # Its segments, as JSON (`layers.py`), and how many passages were written into its base and into its deltas, dead
    # ones included. A generation of the first release has none.
    Column("segments", Text, nullable=False, server_default="[]"),
    Column("base_passages", Integer, nullable=False, server_default="0"),
    Column("delta_passages", Integer, nullable=False, server_default="0"),
)

# Who reads which generation, until when: what is read is not pruned.
readers = Table(
    "readers",
    metadata,
    Column("process", String(200), primary_key=True),
    Column("collection_id", String(32), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("until", Float(53), nullable=False),
    Index("readers_by_collection", "collection_id", "number"),
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
    # The same key again with the same request is the same job; with another request it is a mistake.
    Column("idempotency_key", String(200)),
    Column("request_hash", String(64)),
    # Where to tell that the job has ended, and how far the telling is.
    Column("webhook", Text),
    Column("webhook_state", String(16), nullable=False, server_default=text("''")),
    Column("webhook_attempts", Integer, nullable=False, server_default="0"),
    Column("webhook_due", Float(53), nullable=False, server_default="0"),
    # What became of the last attempt, in a sentence.
    Column("webhook_reason", Text, nullable=False, server_default=text("''")),
    Index("jobs_by_tenant", "tenant", "accepted"),
    Index("jobs_by_key", "tenant", "idempotency_key", unique=True),
    Index("jobs_by_webhook", "webhook_state", "webhook_due"),
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
    # Labels of who may see it, as a JSON list; everybody of the tenant where it is empty.
    Column("access", Text, nullable=False, server_default="[]"),
    # How this one is to be read, as JSON.
    Column("options", Text, nullable=False, server_default="{}"),
    # When it was read, or found to be unchanged or unreadable, and when it was encoded; from these come rates.
    Column("parsed", Float(53)),
    Column("encoded", Float(53)),
    # What was cut from it, and what of it could not be read, as a JSON list of sentences.
    Column("passages", Integer, nullable=False, server_default="0"),
    Column("warnings", Text, nullable=False, server_default="[]"),
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
    # The number of the publish that brought this version; `history` says what stood before.
    Column("since", Integer, nullable=False, server_default="0"),
    Index("documents_by_since", "collection_id", "since"),
)

# Versions that were shown from the publish `since` on and no longer from `until` on: what rolling back shows again.
history = Table(
    "history",
    metadata,
    Column("collection_id", String(32), primary_key=True),
    Column("document_id", String(32), primary_key=True),
    Column("since", Integer, primary_key=True, autoincrement=False),
    Column("until", Integer, nullable=False),
    Column("version_id", BigInteger, nullable=False),
    Column("updated", Float(53), nullable=False),
    Index("history_by_until", "collection_id", "until"),
    Index("history_by_version", "version_id"),
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
    Column("access", Text, nullable=False, server_default="[]"),
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
    # The section that it was cut from; empty where it is one of its own.
    Column("parent", Text, nullable=False, server_default=text("''")),
    # Where its text begins in that section's text, in characters.
    Column("start", Integer, nullable=False, server_default="0"),
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

# Where a document was fetched from, so that the next look may ask only for what has changed since.
origins = Table(
    "origins",
    metadata,
    Column("collection_id", String(32), primary_key=True),
    Column("document_id", String(32), primary_key=True),
    Column("url", Text, nullable=False),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("checked", Float(53), nullable=False),
    Column("kind", String(16), nullable=False),
    # The folder or the address that was synced; empty for one that came alone.
    Column("root", Text, nullable=False, server_default=text("''")),
    # The version that `etag` and `last_modified` were sent with: of another they say nothing.
    Column("version_id", BigInteger),
    Index("origins_by_root", "collection_id", "root"),
)
