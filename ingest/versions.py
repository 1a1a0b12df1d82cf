"""Versions: what was read from each upload, its passages, and the vectors of their text.

A version never changes. Vectors are kept by content hash and embedder, so that text is encoded once, whoever sends it
in whichever document, and a renamed or re-chunked document costs only what is new in it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, insert, or_, select, update

from ingest.backlog import Backlog, Claim
from ingest.catalog import Catalog
from ingest.database import Query, packed, unpacked, unpacked_labels
from ingest.leases import LostLease
from ingest.passage_rows import passage_of_row, passage_row
from ingest.progress import FINAL
from ingest.recutting import chosen
from ingest.schema import documents, history, items, passages, vectors, versions
from pipeline.chunking import Chunking
from pipeline.jobs import ItemState
from pipeline.passages import Block, Document, Metadata, Passage, Vectors

_SLICE = 200  # versions that one query reads
_PURGED = 500  # versions that one write deletes


@dataclass(frozen=True, slots=True)
class Read:
    """What came of reading one item: a document and its passages, or the reason why there is none."""

    claim: Claim
    document: Document | None = None
    passages: tuple[Passage, ...] = ()
    reason: str = ""


class Versions:
    """Reads and writes what ingest has made of documents."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def keep(self, backlog: Backlog, read: Sequence[Read], chunker: str) -> None:
        """Moves items from accepted to parsed, with all that was read from them, or to failed.

        What was cancelled or taken over meanwhile is thrown away.
        """
        made = {
            each.claim.item_id: _version_row(each.claim, each.document, each.passages, chunker)
            for each in read
            if each.document
        }
        cut = {
            each.claim.item_id: [passage_row(each.claim.item_id, passage) for passage in each.passages] for each in read
        }
        with self._catalog.database.writing() as connection:
            held = backlog.held(connection, [each.claim for each in read])
            good = [claim for claim in held if claim.item_id in made]
            self._forget(connection, [claim.item_id for claim in good if claim.was_read])
            if good:
                connection.execute(insert(versions), [made[claim.item_id] for claim in good])
            if rows := [row for claim in good for row in cut[claim.item_id]]:
                connection.execute(insert(passages), rows)
            backlog.finish(connection, good, ItemState.PARSED)
            told = [
                {"item": each.claim.item_id, "cut": len(each.passages), "said": json.dumps(each.document.warnings)}
                for each in read
                if each.document and each.claim in good
            ]
            if told:
                noted: dict[str, Any] = {"passages": bindparam("cut"), "warnings": bindparam("said")}
                connection.execute(update(items).where(items.c.id == bindparam("item")).values(noted), told)
            for each in read:
                if each.claim in held and each.document is None:
                    backlog.finish(connection, [each.claim], ItemState.FAILED, reason=each.reason)

    def chunking(self, collection_id: str) -> Chunking | None:
        """What the collection has chosen of how its documents are cut."""
        with self._catalog.database.reading() as connection:
            return chosen(connection, collection_id)

    def document(self, version_id: int) -> Document:
        """What was read of an upload that is to be cut again. Raises LostLease when it is gone."""
        return self._read(select(versions).where(versions.c.id == version_id), "the document")

    def published_document(self, collection_id: str, document_id: str) -> Document:
        """A published document as it was parsed, for another chunker. Raises LostLease when it is gone."""
        query = (
            select(versions)
            .join_from(documents, versions, versions.c.id == documents.c.version_id)
            .where(and_(documents.c.collection_id == collection_id, documents.c.id == document_id))
        )
        return self._read(query, f"the document {document_id}")

    def _read(self, query: Query, what: str) -> Document:
        with self._catalog.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise LostLease(f"Before it was cut anew, {what} was removed.")
        blocks, metadata = _unpacked_reading(row.blocks)
        return Document(
            id=row.document_id,
            name=row.name,
            title=row.title,
            blocks=blocks,
            media_type=row.media_type,
            language=row.language,
            metadata=unpacked(row.metadata) if metadata is None else metadata,
            access=unpacked_labels(row.access),
        )

    def unencoded(self, version_ids: Sequence[int], embedder: str) -> Mapping[str, str]:
        """The texts of these versions that have no vector yet, by content hash."""
        found: dict[str, str] = {}
        known = and_(vectors.c.content_hash == passages.c.content_hash, vectors.c.embedder == embedder)
        for some in _slices(version_ids):
            query = (
                select(passages)
                .select_from(passages.outerjoin(vectors, known))
                .where(and_(passages.c.version_id.in_(some), vectors.c.content_hash.is_(None)))
                .order_by(passages.c.version_id, passages.c.ordinal)
            )
            with self._catalog.database.reading() as connection:
                for row in connection.execute(query):
                    found.setdefault(row.content_hash, passage_of_row(row).embedded_text())
        return found

    def keep_vectors(self, hashes: Sequence[str], encoded: Vectors, embedder: str) -> None:
        """Keeps one row of `encoded` for each content hash; one that is there already stays."""
        data, width = encoded.data.cast("B"), encoded.shape[1] * 4
        rows = [
            {"embedder": embedder, "content_hash": hash_, "vector": bytes(data[place * width : (place + 1) * width])}
            for place, hash_ in enumerate(hashes)
        ]
        with self._catalog.database.writing() as connection:
            self._catalog.database.add_missing(connection, vectors, rows)

    def passages(self, version_ids: Sequence[int]) -> Iterator[Passage]:
        """The passages of these versions, in that order; reads a slice at a time."""
        for some in _slices(version_ids):
            with self._catalog.database.reading() as connection:
                query = (
                    select(passages, versions.c.access)
                    .join_from(passages, versions, versions.c.id == passages.c.version_id)
                    .where(passages.c.version_id.in_(some))
                    .order_by(passages.c.ordinal)
                )
                rows = connection.execute(query).all()
            order = {version_id: place for place, version_id in enumerate(some)}
            for row in sorted(rows, key=lambda row: order[row.version_id]):
                yield passage_of_row(row, unpacked_labels(row.access))

    def matrix(self, version_ids: Sequence[int], rows: int, embedder: str, dimensions: int) -> Vectors:
        """`[rows, dimensions] float32` in the order of `passages`. Raises LostLease when they have changed."""
        width = dimensions * 4
        data = bytearray(rows * width)
        place = 0
        known = and_(vectors.c.content_hash == passages.c.content_hash, vectors.c.embedder == embedder)
        for some in _slices(version_ids):
            query = (
                select(passages.c.version_id, vectors.c.vector)
                .join_from(passages, vectors, known)
                .where(passages.c.version_id.in_(some))
                .order_by(passages.c.ordinal)
            )
            with self._catalog.database.reading() as connection:
                found = connection.execute(query).all()
            order = {version_id: number for number, version_id in enumerate(some)}
            for row in sorted(found, key=lambda row: order[row.version_id]):
                data[place * width : (place + 1) * width] = row.vector
                place += 1
        if place != rows or len(data) != rows * width:
            raise LostLease(f"{rows} passages were to be published and {place} have a vector: documents changed.")
        return Vectors((rows, dimensions), "float32", memoryview(data))

    def dimensions(self, embedder: str) -> int:
        """The length of this embedder's vectors, read off one of them. Raises LostLease when there is none."""
        query = select(vectors.c.vector).where(vectors.c.embedder == embedder).limit(1)
        with self._catalog.database.reading() as connection:
            found: bytes | None = connection.scalar(query)
        if found is None:
            raise LostLease(f"There is no vector of the embedder '{embedder}' any more.")
        return len(found) // 4

    def purge(self, collection_id: str | None = None) -> int:
        """Deletes versions that no document shows, no kept generation may show again and no item needs any more.

        Returns how many. It looks at every version of the collection, or of all.
        """
        query = select(versions.c.id).where(~_needed()).limit(_PURGED)
        if collection_id is not None:
            query = query.where(versions.c.collection_id == collection_id)
        purged = 0
        while True:
            with self._catalog.database.writing() as connection:
                ids = connection.scalars(query).all()
                self._forget(connection, ids)
            purged += len(ids)
            if len(ids) < _PURGED:
                return purged

    def purge_these(self, version_ids: Sequence[int]) -> int:
        """The same, of these versions only; it looks at no others."""
        purged = 0
        for some in _slices(version_ids):
            with self._catalog.database.writing() as connection:
                query = select(versions.c.id).where(and_(versions.c.id.in_(some), ~_needed()))
                ids = connection.scalars(query).all()
                self._forget(connection, ids)
            purged += len(ids)
        return purged

    def _forget(self, connection: Connection, version_ids: Sequence[int]) -> None:
        if version_ids:
            connection.execute(delete(passages).where(passages.c.version_id.in_(version_ids)))
            connection.execute(delete(versions).where(versions.c.id.in_(version_ids)))

    def chunkers(self, version_ids: Sequence[int]) -> tuple[str, ...]:
        """The fingerprints of the chunkers that made these versions, sorted."""
        found: set[str] = set()
        for some in _slices(version_ids):
            with self._catalog.database.reading() as connection:
                query = select(versions.c.chunker).where(versions.c.id.in_(some)).distinct()
                found.update(connection.scalars(query))
        return tuple(sorted(found))


def _needed() -> ColumnElement[bool]:
    """Of `versions`, those that somebody may still ask for."""
    shown = select(documents.c.id).where(
        and_(
            documents.c.collection_id == versions.c.collection_id,
            documents.c.id == versions.c.document_id,
            documents.c.version_id == versions.c.id,
        )
    )
    was_shown = select(history.c.version_id).where(history.c.version_id == versions.c.id)
    under_way = select(items.c.id).where(and_(items.c.id == versions.c.id, items.c.state.not_in(FINAL)))
    return or_(shown.exists(), was_shown.exists(), under_way.exists())


def _slices(version_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(version_ids), _SLICE):
        yield version_ids[start : start + _SLICE]


def _packed_reading(document: Document) -> bytes:
    """Blocks, and metadata with what the document itself says; the version's own is what was sent, to be compared."""
    blocks = [[block.text, block.heading, block.page] for block in document.blocks]
    read = {"blocks": blocks, "metadata": packed(document.metadata)}
    return zlib.compress(json.dumps(read, ensure_ascii=False).encode("utf-8"), 1)


def _unpacked_reading(data: bytes) -> tuple[tuple[Block, ...], Metadata | None]:
    """The first release kept the blocks alone."""
    read: dict[str, Any] | list[Any] = json.loads(zlib.decompress(data))
    rows: list[tuple[str, list[str], int | None]] = read["blocks"] if isinstance(read, dict) else read
    metadata = unpacked(str(read["metadata"])) if isinstance(read, dict) else None
    return tuple(Block(text, tuple(heading), page) for text, heading, page in rows), metadata


def _version_row(claim: Claim, document: Document, made: Sequence[Passage], chunker: str) -> dict[str, Any]:
    return {
        "id": claim.item_id,
        "collection_id": claim.collection_id,
        "document_id": claim.document_id,
        "name": claim.name,
        "title": document.title,
        "media_type": document.media_type,
        "language": document.language,
        "metadata": claim.metadata,
        "access": claim.access,
        "content_hash": claim.content_hash,
        "blocks": _packed_reading(document),
        "chunker": chunker,
        "passages": len(made),
        "tokens": sum(passage.tokens for passage in made),
    }
