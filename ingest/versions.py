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

from sqlalchemy import and_, bindparam, delete, insert, select, update

from ingest.backlog import Backlog, Claim
from ingest.catalog import Catalog
from ingest.database import Record, packed, unpacked, unpacked_labels
from ingest.leases import LostLease
from ingest.progress import FINAL
from ingest.schema import documents, items, passages, vectors, versions
from pipeline.jobs import ItemState
from pipeline.passages import Block, Document, Passage, Vectors

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
            each.claim.item_id: [_passage_row(each.claim.item_id, passage) for passage in each.passages]
            for each in read
        }
        with self._catalog.database.writing() as connection:
            held = backlog.held(connection, [each.claim for each in read])
            good = [claim for claim in held if claim.item_id in made]
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
                noted = {"passages": bindparam("cut"), "warnings": bindparam("said")}
                connection.execute(update(items).where(items.c.id == bindparam("item")).values(noted), told)
            for each in read:
                if each.claim in held and each.document is None:
                    backlog.finish(connection, [each.claim], ItemState.FAILED, reason=each.reason)

    def published_document(self, collection_id: str, document_id: str) -> Document:
        """A published document as it was parsed, for another chunker. Raises LostLease when it is gone."""
        query = (
            select(versions)
            .join_from(documents, versions, versions.c.id == documents.c.version_id)
            .where(and_(documents.c.collection_id == collection_id, documents.c.id == document_id))
        )
        with self._catalog.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise LostLease(f"The document {document_id} was removed before it was cut anew.")
        return Document(
            id=row.document_id,
            name=row.name,
            title=row.title,
            blocks=_unpacked_blocks(row.blocks),
            media_type=row.media_type,
            language=row.language,
            metadata=unpacked(row.metadata),
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
                    found.setdefault(row.content_hash, _passage(row).embedded_text())
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
                yield _passage(row, unpacked_labels(row.access))

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

    def purge(self, collection_id: str | None = None) -> int:
        """Deletes versions that no document shows and no item needs any more, and returns how many."""
        shown = select(documents.c.version_id).where(documents.c.version_id == versions.c.id).exists()
        needed = select(items.c.id).where(and_(items.c.id == versions.c.id, items.c.state.not_in(FINAL))).exists()
        query = select(versions.c.id).where(and_(~shown, ~needed)).limit(_PURGED)
        if collection_id is not None:
            query = query.where(versions.c.collection_id == collection_id)
        purged = 0
        while True:
            with self._catalog.database.writing() as connection:
                ids = connection.scalars(query).all()
                connection.execute(delete(passages).where(passages.c.version_id.in_(ids)))
                connection.execute(delete(versions).where(versions.c.id.in_(ids)))
            purged += len(ids)
            if len(ids) < _PURGED:
                return purged

    def chunkers(self, version_ids: Sequence[int]) -> tuple[str, ...]:
        """The fingerprints of the chunkers that made these versions, sorted."""
        found: set[str] = set()
        for some in _slices(version_ids):
            with self._catalog.database.reading() as connection:
                query = select(versions.c.chunker).where(versions.c.id.in_(some)).distinct()
                found.update(connection.scalars(query))
        return tuple(sorted(found))


def _slices(version_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(version_ids), _SLICE):
        yield version_ids[start : start + _SLICE]


def _packed_blocks(blocks: Sequence[Block]) -> bytes:
    rows = [[block.text, block.heading, block.page] for block in blocks]
    return zlib.compress(json.dumps(rows, ensure_ascii=False).encode("utf-8"), 1)


def _unpacked_blocks(data: bytes) -> tuple[Block, ...]:
    rows: list[tuple[str, list[str], int | None]] = json.loads(zlib.decompress(data))
    return tuple(Block(text, tuple(heading), page) for text, heading, page in rows)


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
        "blocks": _packed_blocks(document.blocks),
        "chunker": chunker,
        "passages": len(made),
        "tokens": sum(passage.tokens for passage in made),
    }


def _passage_row(version_id: int, passage: Passage) -> dict[str, Any]:
    return {
        "version_id": version_id,
        "ordinal": passage.ordinal,
        "id": passage.id,
        "text": passage.text,
        "tokens": passage.tokens,
        "content_hash": passage.content_hash,
        "source": passage.source,
        "title": passage.title,
        "heading": json.dumps(passage.heading, ensure_ascii=False),
        "page": passage.page,
        "language": passage.language,
        "metadata": packed(passage.metadata),
    }


def _passage(row: Record, access: tuple[str, ...] = ()) -> Passage:
    return Passage(
        id=row.id,
        document_id=row.id.rpartition(":")[0],
        ordinal=row.ordinal,
        text=row.text,
        tokens=row.tokens,
        content_hash=row.content_hash,
        source=row.source,
        title=row.title,
        heading=tuple(json.loads(row.heading)),
        access=access,
        page=row.page,
        language=row.language,
        metadata=unpacked(row.metadata),
    )
