"""How the catalog knows one document: published, under way, failed, or not at all, as far as the asker may know."""

from __future__ import annotations

from sqlalchemy import Connection, and_, select

from ingest.accepting import document_id
from ingest.access import open_to
from ingest.database import Query, Record
from ingest.holdings import BRINGS, documents_of, under_way
from ingest.progress import FINAL
from ingest.schema import documents, items, passages, versions
from pipeline.explaining import DocumentState, Standing
from pipeline.jobs import ItemState


def standing(
    connection: Connection, collection_id: str, owner: tuple[str, str], asked: str, labels: frozenset[str] | None
) -> Standing:
    """Of a document that is asked for by its id or by its name; `owner` is the tenant and the collection's name.

    What one with these labels may not see is as unknown as what never was; None stands for the operator.
    """
    for identity in (asked, document_id(*owner, asked)):
        live = connection.execute(documents_of(collection_id, labels).where(documents.c.id == identity)).one_or_none()
        last = connection.execute(_last_sent(collection_id, identity, labels)).one_or_none()
        if live is not None:
            changing = select(items.c.id).where(
                and_(items.c.document_id == identity, items.c.document_id.in_(under_way(collection_id)))
            )
            is_changing = connection.execute(changing.limit(1)).one_or_none() is not None
            job = last.job_id if last else ""
            return Standing(identity, live.name, DocumentState.PUBLISHED, live.passages, changing=is_changing, job=job)
        if last is not None and (told := _not_live(identity, last)) is not None:
            return told
    return Standing("", asked, DocumentState.UNKNOWN)


def passages_of(collection_id: str, identity: str, labels: frozenset[str] | None) -> Query:
    """The passages of a published document that may be seen, in its order."""
    return (
        select(passages, versions.c.access)
        .join_from(documents, versions, versions.c.id == documents.c.version_id)
        .join(passages, passages.c.version_id == versions.c.id)
        .where(
            and_(
                documents.c.collection_id == collection_id,
                documents.c.id == identity,
                open_to(versions.c.access, labels),
            )
        )
        .order_by(passages.c.ordinal)
    )


def _last_sent(collection_id: str, identity: str, labels: frozenset[str] | None) -> Query:
    """The last time that it was sent; what removes it or cuts it anew says nothing of who may know."""
    return (
        select(items)
        .where(
            and_(
                items.c.collection_id == collection_id,
                items.c.document_id == identity,
                items.c.action.in_(BRINGS),
                open_to(items.c.access, labels),
            )
        )
        .order_by(items.c.id.desc())
        .limit(1)
    )


def _not_live(identity: str, item: Record) -> Standing | None:
    """None for what was published once and is gone."""
    state = ItemState(item.state)
    if state not in FINAL:
        return Standing(identity, item.name, DocumentState.UNDER_WAY, job=item.job_id, reason=state)
    if state is ItemState.FAILED:
        return Standing(identity, item.name, DocumentState.FAILED, job=item.job_id, reason=item.reason)
    if state is ItemState.CANCELLED:
        return Standing(
            identity, item.name, DocumentState.FAILED, job=item.job_id, reason=item.reason or "Its job was cancelled."
        )
    return None
