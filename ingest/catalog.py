"""The catalog: what was accepted, how far it is, and what serves. The one truth about a tenant's documents.

What a door needs stands here; what workers need of the same database is in `backlog.py`, `versions.py` and
`generations.py`. Every method computes without waiting for anybody but the database; async callers use a lane.
(The file is longer than a module should be: it is one class, and a door reads it whole.)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ingest.accepting import check_collection, check_uploads, content_hash, document_id
from ingest.comparing import known, repeated
from ingest.database import Database, Record, packed, packed_labels, unpacked_labels
from ingest.holdings import collection_of, document_of, documents_of, listed, named, under_way
from ingest.layers import LayerOptions
from ingest.origins import check_roots, note_folders
from ingest.passage_rows import passage_of_row
from ingest.progress import FINAL, UNFINISHED, job_items, jobs_of
from ingest.promising import NO_REQUEST, Request, earlier, request_of, retry_of
from ingest.recutting import REFRESH, choose, chosen, cut_again, may_be_cut
from ingest.retrying import retry_of_failed, take_over
from ingest.schema import collections, documents, generations, history, items, jobs, passages, uploads
from ingest.standings import passages_of, standing
from pipeline.chunking import Chosen, Chunking
from pipeline.errors import NotFound
from pipeline.explaining import Standing
from pipeline.jobs import (
    NO_TERMS,
    Collection,
    DocumentInfo,
    ItemState,
    Job,
    JobItem,
    Known,
    Offer,
    Repeated,
    Terms,
)
from pipeline.passages import Passage, Upload
from pipeline.ports import GenerationRef

ASKED = ("name", "media_type", "metadata", "access", "options", "content_hash")  # what makes an upload this one
_DELETED = "The collection was deleted."
_UPLOADS = 64  # that one statement writes


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """`url` is sqlite:///PATH or postgresql+psycopg://…; `generations` is the folder that generations live in.

    A task that does not renew its lease within `lease_seconds` is taken for dead. An item that was begun `attempts`
    times without an end fails. A generation is kept for `keep_seconds` after it was superseded, for those who still
    read it. While documents keep coming, what is ready is published after `publish_seconds` at the earliest. The bytes
    of what failed are kept for `failed_seconds`, to be tried again, and of all together at most `failed_bytes`, the
    latest.
    """

    url: str
    generations: Path
    lease_seconds: float = 30.0
    attempts: int = 3
    keep_seconds: float = 900.0
    publish_seconds: float = 2.0
    layers: LayerOptions = field(default_factory=LayerOptions)
    failed_seconds: float = 7 * 86_400.0
    failed_bytes: int = 2**30


class Catalog:
    """Implements `ports.CurrentGeneration` and `ports.EarlierGenerations`. Safe to use from any thread."""

    def __init__(self, options: CatalogOptions, database: Database, now: Callable[[], float] = time.time) -> None:
        self.options = options
        self.database = database
        self.now = now

    @classmethod
    @contextmanager
    def open(cls, options: CatalogOptions, now: Callable[[], float] = time.time) -> Generator[Catalog, None, None]:
        """Creates the schema where it is missing. Raises Misconfigured when the database cannot be reached."""
        with Database.open(options.url) as database:
            yield cls(options, database, now)

    def check(self) -> None:
        """Raises Unavailable when the database does not answer."""
        with self.database.reading() as connection:
            connection.execute(select(1))

    # Documents in

    def accept(
        self, tenant: str, collection: str, uploads: Sequence[Upload], *, kind: str = "add", terms: Terms = NO_TERMS
    ) -> Job:
        """Keeps everything or nothing; once it returns, the job survives any crash and will be done.

        The collection is created on first use. Raises InvalidInput, and Conflict for a key of another request.
        """
        check_collection(collection)
        check_uploads(uploads)
        check_roots(upload.origin for upload in uploads)
        rows: list[dict[str, Any]] = [
            {
                "document_id": document_id(tenant, collection, upload.name),
                "name": upload.name,
                "action": "add",
                "media_type": upload.media_type,
                "metadata": packed(upload.metadata),
                "access": packed_labels(upload.access),
                "options": packed(upload.options),
                "content_hash": content_hash(upload.content, upload.options),
                "size": len(upload.content),
                "state": ItemState.ACCEPTED,
            }
            for upload in uploads
        ]
        asked = [[*(row[name] for name in ASKED), upload.origin] for row, upload in zip(rows, uploads, strict=True)]
        request = request_of(terms, kind, collection, asked)

        def write(connection: Connection) -> Job:
            collection_id = self.found_or_made(connection, tenant, collection)
            folders = [(row["document_id"], upload.origin) for row, upload in zip(rows, uploads, strict=True)]
            note_folders(self.database, connection, collection_id, folders, self.now())
            contents = (upload.content for upload in uploads)
            return self.promise(connection, tenant, collection, collection_id, kind, rows, contents, request)

        return self.once(tenant, request, write)

    def remove(
        self,
        tenant: str,
        collection: str,
        document_ids: Sequence[str],
        *,
        terms: Terms = NO_TERMS,
        labels: frozenset[str] | None = frozenset(),
    ) -> Job:
        """Accepts the removal of documents; they are gone from search when the job is done.

        A document that is accepted but not yet published may be named too. Raises NotFound for an unknown one and for
        one that a caller with these labels may not see (None stands for the operator), and Conflict for a key of
        another request.
        """
        request = request_of(terms, "remove", collection, list(document_ids))

        def write(connection: Connection) -> Job:
            collection_id = self._locked(connection, tenant, collection)
            found = [(each, named(connection, collection_id, each, labels)) for each in dict.fromkeys(document_ids)]
            rows = [
                {
                    "document_id": id_,
                    "name": each.name,
                    "access": each.access,
                    "action": "remove",
                    "media_type": None,
                    "metadata": "{}",
                    "content_hash": "",
                    "size": 0,
                    "state": ItemState.ENCODED,  # there is nothing to parse or to encode
                }
                for id_, each in found
            ]
            return self.promise(connection, tenant, collection, collection_id, "remove", rows, request=request)

        return self.once(tenant, request, write)

    def refresh(self, tenant: str, collection: str, *, terms: Terms = NO_TERMS) -> Job:
        """Accepts that every published document be cut anew, from the text as it was parsed, and published anew.

        What another chunker would not cut differently ends unchanged. A new generation is made from the catalog in
        any case, also of nothing, and also when the job is cancelled: the one that serves may be damaged. Raises
        NotFound.
        """
        request = request_of(terms, "refresh", collection)

        def write(connection: Connection) -> Job:
            collection_id = self._locked(connection, tenant, collection)
            return self._anew(connection, tenant, collection, collection_id, request)

        return self.once(tenant, request, write)

    def choose_chunking(self, tenant: str, collection: str, chunking: Chunking | None) -> Job | None:
        """Keeps how a collection is to be cut, None for the workers' default, and accepts that it is cut anew so.

        The collection is created on first use. Documents under way are cut so, too; until the job is done readers see
        the old cut of what was published. Returns None where it was the choice already. Raises InvalidInput.
        """
        check_collection(collection)
        with self.database.writing() as connection:
            collection_id = self.found_or_made(connection, tenant, collection)
            if not choose(connection, collection_id, chunking):
                return None
            cut_again(connection, collection_id, self.now())
            return self._anew(connection, tenant, collection, collection_id, NO_REQUEST)

    def retry(self, tenant: str, job_id: str, *, terms: Terms = NO_TERMS) -> Job:
        """Accepts the failed documents of a job once more; asked again, the same new job comes back.

        Raises NotFound, Conflict when nothing failed or the job is not over, NoLongerKept when the bytes are gone.
        """
        request = retry_of(job_id, terms)

        def write(connection: Connection) -> Job:
            row = self._row(connection, tenant, job_id)
            collection_id = self._locked(connection, tenant, row.collection)
            retry = retry_of_failed(connection, row, collection_id)
            job = self.promise(connection, tenant, row.collection, collection_id, row.kind, retry.rows, request=request)
            take_over(connection, job.id, retry)
            return job

        return self.once(tenant, request, write)

    def cancel(self, tenant: str, job_id: str) -> Job:
        """Stops what is not published yet; what is, stays. A finished job is returned as it is. Raises NotFound."""
        with self.database.writing() as connection:
            self._job(connection, tenant, job_id)
            self._drop(connection, items.c.job_id == job_id, "")
            return self._job(connection, tenant, job_id)

    # Progress

    def job(self, tenant: str, job_id: str) -> Job:
        """Raises NotFound, also for a job of another tenant."""
        with self.database.reading() as connection:
            return self._job(connection, tenant, job_id)

    def jobs(self, tenant: str, collection: str | None = None, limit: int = 50) -> tuple[Job, ...]:
        """The latest jobs first."""
        query = select(jobs).where(jobs.c.tenant == tenant).order_by(jobs.c.accepted.desc(), jobs.c.id).limit(limit)
        if collection is not None:
            query = query.where(jobs.c.collection == collection)
        with self.database.reading() as connection:
            return jobs_of(connection, connection.execute(query).all(), self.now())

    def items(
        self, tenant: str, job_id: str, after: int = 0, limit: int = 500, state: ItemState | None = None
    ) -> tuple[JobItem, ...]:
        """The job's documents as they were sent, from behind the `after`th on; all, or those in one state."""
        with self.database.reading() as connection:
            self._row(connection, tenant, job_id)
            return job_items(connection, job_id, after, limit, state)

    # What there is

    def unneeded(self, tenant: str, collection: str, offers: Sequence[Offer]) -> tuple[Known, ...]:
        """Those of the offered documents that need not be sent: of a collection that is not there yet, none."""
        with self.database.reading() as connection:
            collection_id = self._found(connection, tenant, collection)
            return known(connection, tenant, collection, collection_id, offers) if collection_id else ()

    def repeated(
        self,
        tenant: str,
        collection: str,
        content_hashes: Sequence[str],
        passage_hashes: Sequence[str],
        labels: frozenset[str] = frozenset(),
    ) -> Repeated:
        """Which of these hashes the collection has, in documents that may be seen with these labels."""
        with self.database.reading() as connection:
            collection_id = self._found(connection, tenant, collection)
            if collection_id is None:
                return Repeated()
            return repeated(connection, collection_id, content_hashes, passage_hashes, labels)

    def collections(self, tenant: str) -> tuple[Collection, ...]:
        """By name."""
        with self.database.reading() as connection:
            found = connection.execute(listed().where(collections.c.tenant == tenant).order_by(collections.c.name))
            return tuple(collection_of(row) for row in found)

    def published(self) -> tuple[tuple[str, str], ...]:
        """Tenant and name of every collection that has a generation."""
        query = select(collections.c.tenant, collections.c.name).where(collections.c.generation.is_not(None))
        with self.database.reading() as connection:
            return tuple((row.tenant, row.name) for row in connection.execute(query))

    def serving(self) -> dict[tuple[str, str], GenerationRef]:
        """By tenant and name, the current generation of every collection that has one: all in one look."""
        query = select(
            collections.c.tenant, collections.c.name, generations.c.number, generations.c.folder, generations.c.digest
        ).join_from(
            collections,
            generations,
            and_(generations.c.collection_id == collections.c.id, generations.c.number == collections.c.generation),
        )
        with self.database.reading() as connection:
            return {(row.tenant, row.name): self._ref(row.name, row) for row in connection.execute(query)}

    def unfinished(self) -> int:
        """Documents of all tenants that were accepted and are not done."""
        query = select(func.count()).select_from(items).where(items.c.state.in_(UNFINISHED))
        with self.database.reading() as connection:
            return connection.scalars(query).one()

    def collection(self, tenant: str, name: str) -> Collection:
        """Raises NotFound."""
        with self.database.reading() as connection:
            query = listed().where(and_(collections.c.tenant == tenant, collections.c.name == name))
            row = connection.execute(query).one_or_none()
            if row is None:
                raise self._unknown(connection, tenant, name)
            return collection_of(row)

    def delete_collection(self, tenant: str, name: str) -> None:
        """Forgets the collection at once and cancels its jobs; a sweep frees the space. Raises NotFound."""
        with self.database.writing() as connection:
            collection_id = self._id(connection, tenant, name)
            self._drop(connection, items.c.collection_id == collection_id, _DELETED)
            theirs = select(items.c.id).where(items.c.collection_id == collection_id)
            connection.execute(delete(uploads).where(uploads.c.item_id.in_(theirs)))
            connection.execute(delete(documents).where(documents.c.collection_id == collection_id))
            connection.execute(delete(history).where(history.c.collection_id == collection_id))
            connection.execute(delete(collections).where(collections.c.id == collection_id))

    def documents(
        self,
        tenant: str,
        collection: str,
        *,
        after: str | None = None,
        limit: int = 100,
        labels: frozenset[str] | None = frozenset(),
    ) -> tuple[DocumentInfo, ...]:
        """Published documents in the order of their ids, from the one behind `after` on.

        Those that a caller with these labels may see; None stands for the operator, who sees all.
        """
        with self.database.reading() as connection:
            query = documents_of(self._id(connection, tenant, collection), labels).order_by(documents.c.id).limit(limit)
            if after is not None:
                query = query.where(documents.c.id > after)
            return tuple(document_of(row) for row in connection.execute(query))

    def document(
        self, tenant: str, collection: str, document_id: str, *, labels: frozenset[str] | None = frozenset()
    ) -> DocumentInfo:
        """A published document. Raises NotFound, also for one that a caller with these labels may not see."""
        with self.database.reading() as connection:
            query = documents_of(self._id(connection, tenant, collection), labels)
            row = connection.execute(query.where(documents.c.id == document_id)).one_or_none()
            if row is None:
                raise NotFound(
                    "document", document_id, connection.scalars(query.with_only_columns(documents.c.id).limit(10))
                )
            return document_of(row)

    def passages(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        *,
        after: int = -1,
        limit: int = 100,
        labels: frozenset[str] | None = frozenset(),
    ) -> tuple[Passage, ...]:
        """The passages of a published document in its order, from behind the ordinal `after` on. Raises NotFound."""
        self.document(tenant, collection, document_id, labels=labels)
        with self.database.reading() as connection:
            query = passages_of(self._id(connection, tenant, collection), document_id, labels)
            rows = connection.execute(query.where(passages.c.ordinal > after).limit(limit))
            return tuple(passage_of_row(row, unpacked_labels(row.access)) for row in rows)

    def standing(self, tenant: str, collection: str, document: str, *, labels: frozenset[str] | None) -> Standing:
        """How a document stands that is named by its id or its name. Raises NotFound for an unknown collection."""
        with self.database.reading() as connection:
            collection_id = self._id(connection, tenant, collection)
            return standing(connection, collection_id, (tenant, collection), document, labels)

    def chunking(self, tenant: str, collection: str) -> Chosen:
        """How a collection is cut. Raises NotFound."""
        served = and_(generations.c.collection_id == collections.c.id, generations.c.number == collections.c.generation)
        with self.database.reading() as connection:
            collection_id = self._id(connection, tenant, collection)
            query = select(generations.c.chunker).join_from(collections, generations, served)
            made_by: str | None = connection.scalar(query.where(collections.c.id == collection_id))
            return Chosen(chosen(connection, collection_id), made_by or "")

    def current(self, tenant: str, collection: str) -> GenerationRef | None:
        """The generation that serves, or None before the first. Raises NotFound for an unknown collection."""
        served = and_(generations.c.collection_id == collections.c.id, generations.c.number == collections.c.generation)
        query = (
            select(generations.c.number, generations.c.folder, generations.c.digest)
            .select_from(collections.outerjoin(generations, served))
            .where(and_(collections.c.tenant == tenant, collections.c.name == collection))
        )
        with self.database.reading() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                raise self._unknown(connection, tenant, collection)
        return None if row.number is None else self._ref(collection, row)

    def earlier(self, tenant: str, collection: str, before: int) -> tuple[GenerationRef, ...]:
        """Generations with a lower number that are not pruned yet, nor rolled back behind; the newest first."""
        query = (
            select(generations.c.number, generations.c.folder, generations.c.digest)
            .join_from(generations, collections, generations.c.collection_id == collections.c.id)
            .where(and_(collections.c.tenant == tenant, collections.c.name == collection))
            .where(and_(generations.c.number < before, generations.c.withdrawn == 0))
            .order_by(generations.c.number.desc())
        )
        with self.database.reading() as connection:
            return tuple(self._ref(collection, row) for row in connection.execute(query))

    # What acceptance needs, also of other sources

    def found_or_made(self, connection: Connection, tenant: str, name: str) -> str:
        """The id of a collection, made on first use; nobody else adds to it until this write ends."""
        row = {"id": uuid.uuid4().hex[:16], "tenant": tenant, "name": name, "created": self.now()}
        self.database.add_missing(connection, collections, [row])
        return self._locked(connection, tenant, name)

    def once(self, tenant: str, request: Request, write: Callable[[Connection], Job]) -> Job:
        """Writes, or returns the job that the same request has made before. Of two at once the index lets one pass."""
        for last in (request.key is None, True):
            try:
                with self.database.writing() as connection:
                    before = earlier(connection, tenant, request, self.now())
                    return write(connection) if before is None else self._job(connection, tenant, before)
            except IntegrityError:
                if last:
                    raise
        raise AssertionError("the second try returns or raises")

    def promise(
        self,
        connection: Connection,
        tenant: str,
        collection: str,
        collection_id: str,
        kind: str,
        rows: Sequence[dict[str, Any]],
        contents: Iterable[bytes] = (),
        request: Request = NO_REQUEST,
    ) -> Job:
        """Files items under a new job within a write; `contents` are what their uploads hold, in their order.

        Call it through `once` where the request has a key.
        """
        job_id, now = uuid.uuid4().hex[:20], self.now()
        job = {"id": job_id, "tenant": tenant, "collection": collection, "collection_id": collection_id, "kind": kind}
        connection.execute(insert(jobs).values(**job, **request.columns(), total=len(rows), accepted=now))
        filed = [
            {**row, "job_id": job_id, "ordinal": ordinal, "collection_id": collection_id, "updated": now}
            for ordinal, row in enumerate(rows, start=1)
        ]
        if filed:
            connection.execute(insert(items), filed)
        query = select(items.c.id).where(items.c.job_id == job_id).order_by(items.c.ordinal)
        ids = iter(connection.scalars(query).all())
        kept = iter(contents)
        while some := [{"item_id": next(ids), "content": content} for content in islice(kept, _UPLOADS)]:
            connection.execute(insert(uploads), some)
        return self._job(connection, tenant, job_id)

    # What these need

    def _anew(self, connection: Connection, tenant: str, collection: str, collection_id: str, request: Request) -> Job:
        # Documents with an upload under way will be cut by the new chunker anyway.
        idle = documents.c.id.not_in(under_way(collection_id))
        query = documents_of(collection_id).where(and_(idle, may_be_cut()))
        rows = [
            {
                "document_id": row.id,
                "name": row.name,
                "action": REFRESH,
                "media_type": row.media_type,
                "metadata": row.metadata,
                "access": row.access,
                "content_hash": row.content_hash,
                "size": 0,
                "state": ItemState.ACCEPTED,
            }
            for row in connection.execute(query.order_by(documents.c.id))
        ]
        connection.execute(update(collections).where(collections.c.id == collection_id).values(stale=1))
        return self.promise(connection, tenant, collection, collection_id, "refresh", rows, request=request)

    def _ref(self, collection: str, row: Record) -> GenerationRef:
        folder = (self.options.generations / row.folder).absolute()
        return GenerationRef(collection, row.number, folder, row.digest)

    def _drop(self, connection: Connection, which: Any, reason: str) -> None:
        """Cancels the unfinished items among `which`, and forgets their bytes."""
        unfinished = and_(which, items.c.state.not_in(FINAL))
        connection.execute(delete(uploads).where(uploads.c.item_id.in_(select(items.c.id).where(unfinished))))
        change = update(items).where(unfinished)
        connection.execute(change.values(state=ItemState.CANCELLED, reason=reason, owner=None, updated=self.now()))

    def _job(self, connection: Connection, tenant: str, job_id: str) -> Job:
        return jobs_of(connection, [self._row(connection, tenant, job_id)], self.now())[0]

    def _row(self, connection: Connection, tenant: str, job_id: str) -> Record:
        query = select(jobs).where(and_(jobs.c.id == job_id, jobs.c.tenant == tenant))
        row = connection.execute(query).one_or_none()
        if row is None:
            latest = select(jobs.c.id).where(jobs.c.tenant == tenant).order_by(jobs.c.accepted.desc()).limit(10)
            raise NotFound("job", job_id, connection.scalars(latest))
        return row

    def _locked(self, connection: Connection, tenant: str, name: str) -> str:
        """One at a time adds to a collection, so that items are numbered in the order in which they are committed."""
        collection_id = self._id(connection, tenant, name)
        connection.execute(select(collections.c.id).where(collections.c.id == collection_id).with_for_update())
        return collection_id

    def _id(self, connection: Connection, tenant: str, name: str) -> str:
        found = self._found(connection, tenant, name)
        if found is None:
            raise self._unknown(connection, tenant, name)
        return found

    def _found(self, connection: Connection, tenant: str, name: str) -> str | None:
        query = select(collections.c.id).where(and_(collections.c.tenant == tenant, collections.c.name == name))
        found: str | None = connection.scalar(query)
        return found

    def _unknown(self, connection: Connection, tenant: str, name: str) -> NotFound:
        known = select(collections.c.name).where(collections.c.tenant == tenant).order_by(collections.c.name).limit(10)
        return NotFound("collection", name, connection.scalars(known))
