"""What a collection has already: documents just as somebody would send them, and texts that it knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, and_, func, literal, select

from ingest.accepting import document_id
from ingest.access import open_to
from ingest.database import Query, Record, packed, packed_labels
from ingest.progress import FINAL
from ingest.schema import documents, items, passages, versions
from pipeline.jobs import Known, Offer, Place, Repeated

T = TypeVar("T")
_SLICE = 500  # values in one query


def known(
    connection: Connection, tenant: str, collection: str, collection_id: str, offers: Sequence[Offer]
) -> tuple[Known, ...]:
    """Those of the offers that would change nothing: published just so, or on their way by the last upload of them."""
    ids = {document_id(tenant, collection, offer.name): offer for offer in offers}
    found: list[Known] = []
    for some in _slices(ids):
        pending = {row.document_id: row for row in connection.execute(_last_under_way(collection_id, some))}
        live = {row.id: row for row in connection.execute(_live(collection_id, some))}
        for id_ in some:
            offer, coming = ids[id_], pending.get(id_)
            if coming is not None:
                if coming.action == "add" and _same(coming, offer):
                    found.append(Known(offer.name, coming.job_id))
            elif id_ in live and _same(live[id_], offer):
                found.append(Known(offer.name))
    return tuple(found)


def repeated(
    connection: Connection,
    collection_id: str,
    content_hashes: Iterable[str],
    passage_hashes: Iterable[str],
    labels: frozenset[str],
) -> Repeated:
    """Where the collection has the same bytes, and the same passages, in documents that one with these labels sees."""
    whole = select(
        versions.c.content_hash, versions.c.document_id, versions.c.name, versions.c.access, _WHOLE.label("ordinal")
    ).join_from(documents, versions, versions.c.id == documents.c.version_id)
    pieces = (
        select(passages.c.content_hash, versions.c.document_id, versions.c.name, versions.c.access, passages.c.ordinal)
        .join_from(passages, versions, versions.c.id == passages.c.version_id)
        .join(documents, documents.c.version_id == versions.c.id)
    )
    here = and_(documents.c.collection_id == collection_id, open_to(versions.c.access, labels))
    bytes_of, text_of = versions.c.content_hash, passages.c.content_hash
    return Repeated(
        documents=_places(connection, (whole.where(here, bytes_of.in_(some)) for some in _slices(content_hashes))),
        passages=_places(connection, (pieces.where(here, text_of.in_(some)) for some in _slices(passage_hashes))),
    )


_WHOLE = literal(0)


def _places(connection: Connection, queries: Iterable[Query]) -> Mapping[str, tuple[Place, ...]]:
    """The first two documents of each hash, by name, so that the answer does not change from call to call."""
    found: dict[str, tuple[Place, ...]] = {}
    for query in queries:
        for row in sorted(connection.execute(query).all(), key=_by_name):
            before = found.get(row.content_hash, ())
            if len(before) < 2 and all(place.document_id != row.document_id for place in before):
                found[row.content_hash] = (*before, Place(row.document_id, row.name, row.ordinal))
    return found


def _by_name(row: Record) -> tuple[str, int]:
    return row.name, row.ordinal


def _same(row: Record, offer: Offer) -> bool:
    wanted = (offer.content_hash, packed(offer.metadata), packed_labels(offer.access))
    return bool((row.content_hash, row.metadata, row.access) == wanted)


def _last_under_way(collection_id: str, ids: Sequence[str]) -> Any:
    last = (
        select(func.max(items.c.id))
        .where(and_(items.c.collection_id == collection_id, items.c.document_id.in_(ids), items.c.state.not_in(FINAL)))
        .group_by(items.c.document_id)
    )
    return select(items).where(items.c.id.in_(last))


def _live(collection_id: str, ids: Sequence[str]) -> Any:
    return (
        select(documents.c.id, versions.c.content_hash, versions.c.metadata, versions.c.access)
        .join_from(documents, versions, versions.c.id == documents.c.version_id)
        .where(and_(documents.c.collection_id == collection_id, documents.c.id.in_(ids)))
    )


def _slices(values: Iterable[T]) -> Iterator[list[T]]:
    every = list(dict.fromkeys(values))
    for start in range(0, len(every), _SLICE):
        yield every[start : start + _SLICE]
