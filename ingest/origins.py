"""Where documents came from: a folder that somebody keeps in step with a collection, or a URL.

The catalog knows it, and no file on the machine that synced: whoever syncs the same folder next, from wherever, is told
which documents came from it. A row says nothing about a document that is gone; `tidy` deletes such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, delete, func, or_, select, update

from ingest.database import Database, Record, unpacked_labels
from ingest.progress import FINAL
from ingest.schema import collections, documents, items, origins, versions
from pipeline.errors import InvalidInput, NotFound
from pipeline.origins import Origin, OriginKind, Validators

_LONGEST_ROOT = 1024
_SLICE = 500  # rows that one statement writes


def check_roots(roots: Iterable[str]) -> None:
    """Raises InvalidInput for what cannot name a folder; an empty one names none."""
    for root in set(roots):
        if len(root) > _LONGEST_ROOT or not root.isprintable():
            raise InvalidInput(
                f"A folder is named by {_LONGEST_ROOT} characters at most, and no control characters, as "
                "file://host/folder.",
                field="origin",
            )


def note_folders(
    database: Database, connection: Connection, collection_id: str, uploads: Sequence[tuple[str, str]], now: float
) -> None:
    """Within a write: these documents came from folders, (id, the folder's name); from none where that is empty."""
    for root in dict.fromkeys(root for _, root in uploads if root):
        _note_folder(database, connection, collection_id, [id_ for id_, of in uploads if of == root], root, now)


def _note_folder(
    database: Database, connection: Connection, collection_id: str, document_ids: Sequence[str], root: str, now: float
) -> None:
    """Within a write: from now on these documents are the folder's, whoever sent them before."""
    come = {"url": "", "etag": None, "last_modified": None, "version_id": None, "checked": now}
    values: dict[str, Any] = {**come, "kind": OriginKind.FOLDER, "root": root}
    for start in range(0, len(document_ids), _SLICE):
        some = document_ids[start : start + _SLICE]
        rows = [{**values, "collection_id": collection_id, "document_id": each} for each in dict.fromkeys(some)]
        database.add_missing(connection, origins, rows)
        theirs = and_(origins.c.collection_id == collection_id, origins.c.document_id.in_(some))
        connection.execute(update(origins).where(theirs).values(values))


def note_url(
    database: Database,
    connection: Connection,
    collection_id: str,
    document_id: str,
    validators: Validators,
    version_id: int | None,
    now: float,
) -> None:
    """Within a write: the document was fetched, and what its server called the state that became this version.

    For another version, or none, the validators say nothing, and the next look is without conditions.
    """
    row: dict[str, Any] = {
        "url": validators.url,
        "etag": validators.etag or None,
        "last_modified": validators.last_modified or None,
        "version_id": version_id,
        "checked": now,
        "kind": OriginKind.URL,
        "root": "",
    }
    key = {"collection_id": collection_id, "document_id": document_id}
    database.add_missing(connection, origins, [{**row, **key}])
    mine = and_(origins.c.collection_id == collection_id, origins.c.document_id == document_id)
    connection.execute(update(origins).where(mine).values(row))


class Origins:
    """Reads where documents came from."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(
        self,
        tenant: str,
        collection: str,
        *,
        root: str | None = None,
        kind: OriginKind | None = None,
        after: str | None = None,
        limit: int = 500,
    ) -> tuple[Origin, ...]:
        """Documents with an origin, by id from behind `after` on: of one folder, of one kind, or all.

        What is on its way counts as there, and what is on its way out does not. Raises NotFound.
        """
        with self._database.reading() as connection:
            query = select(collections.c.id).where(collections.c.tenant == tenant, collections.c.name == collection)
            collection_id: str | None = connection.scalar(query)
            if collection_id is None:
                known = select(collections.c.name).where(collections.c.tenant == tenant).limit(10)
                raise NotFound("collection", collection, connection.scalars(known))
            found = _standing(collection_id).order_by(origins.c.document_id).limit(limit)
            if root is not None:
                found = found.where(origins.c.root == root)
            if kind is not None:
                found = found.where(origins.c.kind == kind)
            if after is not None:
                found = found.where(origins.c.document_id > after)
            return tuple(_origin(row) for row in connection.execute(found))

    def tidy(self) -> int:
        """Deletes what is said about documents that are gone, and returns of how many."""
        here = and_(documents.c.collection_id == origins.c.collection_id, documents.c.id == origins.c.document_id)
        shown = select(documents.c.id).where(here).exists()
        coming = and_(
            items.c.collection_id == origins.c.collection_id,
            items.c.document_id == origins.c.document_id,
            items.c.state.not_in(FINAL),
        )
        under_way = select(items.c.id).where(coming).exists()
        with self._database.writing() as connection:
            return connection.execute(delete(origins).where(and_(~shown, ~under_way))).rowcount


def _standing(collection_id: str) -> Any:
    """Origins of one collection, each with the version that is shown and the last item that is not done."""
    pending = (
        select(items.c.document_id, func.max(items.c.id).label("id"))
        .where(and_(items.c.collection_id == collection_id, items.c.state.not_in(FINAL)))
        .group_by(items.c.document_id)
        .subquery()
    )
    last = items.alias("last")
    live = and_(documents.c.collection_id == origins.c.collection_id, documents.c.id == origins.c.document_id)
    return (
        select(
            origins,
            versions.c.name.label("shown_name"),
            versions.c.content_hash.label("shown_hash"),
            versions.c.access.label("shown_access"),
            last.c.action,
            last.c.name.label("last_name"),
            last.c.content_hash.label("last_hash"),
            last.c.access.label("last_access"),
        )
        .select_from(
            origins.outerjoin(documents, live)
            .outerjoin(versions, versions.c.id == documents.c.version_id)
            .outerjoin(pending, pending.c.document_id == origins.c.document_id)
            .outerjoin(last, last.c.id == pending.c.id)
        )
        .where(
            and_(
                origins.c.collection_id == collection_id,
                or_(versions.c.id.is_not(None), last.c.id.is_not(None)),
                or_(last.c.action.is_(None), last.c.action != "remove"),
            )
        )
    )


def _origin(row: Record) -> Origin:
    changes = row.action is not None and row.action not in {"refresh", "keep"}
    return Origin(
        document_id=row.document_id,
        name=row.last_name if row.shown_name is None else row.shown_name,
        kind=OriginKind(row.kind),
        root=row.root,
        url=row.url,
        content_hash=row.last_hash if changes else row.shown_hash or "",
        access=unpacked_labels((row.last_access if changes else row.shown_access) or "[]"),
        checked=row.checked,
    )
