"""What a collection holds, as its owner sees it: published documents, and how many there are."""

from __future__ import annotations

from sqlalchemy import Connection, and_, func, select

from ingest.access import may_see, open_to
from ingest.database import Query, Record, unpacked, unpacked_labels
from ingest.layers import Stack, unpacked_layers
from ingest.progress import FINAL
from ingest.schema import collections, documents, generations, items, versions
from pipeline.errors import NotFound
from pipeline.jobs import Collection, DocumentInfo


def listed() -> Query:
    """Collections with what each holds: what was published is counted once, when it is published."""
    current = and_(generations.c.collection_id == collections.c.id, generations.c.number == collections.c.generation)
    return select(
        collections.c.tenant,
        collections.c.name,
        collections.c.generation,
        collections.c.created,
        func.coalesce(generations.c.documents, 0).label("documents"),
        func.coalesce(generations.c.passages, 0).label("passages"),
        func.coalesce(generations.c.segments, "[]").label("segments"),
    ).select_from(collections.outerjoin(generations, current))


def collection_of(row: Record) -> Collection:
    """From a row of `listed`."""
    stack = Stack(unpacked_layers(row.segments), row.passages)
    return Collection(
        tenant=row.tenant,
        name=row.name,
        documents=row.documents,
        passages=row.passages,
        generation=row.generation,
        created=row.created,
        segments=stack.segments if row.generation is not None else 0,
        written=stack.written or row.passages,
        size=stack.size,
    )


def documents_of(collection_id: str, labels: frozenset[str] | None = None) -> Query:
    """The published documents of a collection, each with the version that is shown; with labels those that one who has
    them may see."""
    return (
        select(documents.c.id, documents.c.updated, *(versions.c[name] for name in _SHOWN))
        .join_from(documents, versions, versions.c.id == documents.c.version_id)
        .where(and_(documents.c.collection_id == collection_id, open_to(versions.c.access, labels)))
    )


_SHOWN = ("name", "title", "media_type", "language", "metadata", "access", "content_hash", "passages", "tokens")


def document_of(row: Record) -> DocumentInfo:
    """From a row of `documents_of`."""
    return DocumentInfo(
        id=row.id,
        name=row.name,
        title=row.title,
        media_type=row.media_type,
        language=row.language,
        passages=row.passages,
        tokens=row.tokens,
        content_hash=row.content_hash,
        updated=row.updated,
        metadata=unpacked(row.metadata),
        access=unpacked_labels(row.access),
    )


def under_way(collection_id: str) -> Query:
    """Ids of documents that an upload or a removal is about to change."""
    return select(items.c.document_id).where(and_(items.c.collection_id == collection_id, items.c.state.not_in(FINAL)))


BRINGS = ("add", "fetch", "passages")  # actions of items that bring a document


def named(connection: Connection, collection_id: str, document_id: str, labels: frozenset[str] | None) -> Record:
    """Name and labels of a document that is published or on its way.

    Raises NotFound, naming some that are published, also for one that a caller with these labels may not see.
    """
    live = documents_of(collection_id).where(documents.c.id == document_id)
    pending = select(items.c.name, items.c.access).where(
        and_(
            items.c.document_id == document_id,
            items.c.document_id.in_(under_way(collection_id)),
            items.c.collection_id == collection_id,
            items.c.action.in_(BRINGS),
        )
    )
    found: Record | None = connection.execute(live.with_only_columns(versions.c.name, versions.c.access)).first()
    found = found or connection.execute(pending.order_by(items.c.id.desc()).limit(1)).first()
    if found is None or not may_see(found.access, labels):
        known = documents_of(collection_id, labels).with_only_columns(documents.c.id).limit(10)
        raise NotFound("document", document_id, connection.scalars(known))
    return found
