"""Generations in the catalog: who may publish, what changes, and the row that says which one serves.

A publisher takes the collection's next number under a lease. The number is its fencing number and the generation's:
an attempt that fails leaves a gap. The pointer moves by compare-and-swap in one transaction with the documents and
the items that it makes true; a publisher whose number is no longer the last one changes nothing.

Nothing that a small publish does here reads or writes in proportion to the collection. (The file is longer than a
module should be: what a publish reads and what it commits must agree, and are read together.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    and_,
    case,
    delete,
    insert,
    literal,
    or_,
    select,
    update,
)

from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.database import Query, Record
from ingest.layers import Layer, Stack, packed_layers, unpacked_layers, unpacked_segment
from ingest.leases import LostLease
from ingest.recutting import KEPT, held_back
from ingest.schema import collections, documents, generations, history, items, versions
from pipeline.jobs import ItemState
from pipeline.ports import GenerationRef, SegmentRef

# What a base that was published makes of a compaction that was under way, or waited to be taken over.
COMPACTED = {
    "compacting_owner": None,
    "compacting_until": 0.0,
    "compacting_from": None,
    "compacted": None,
    "compact": 0,
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """Versions in the order of their documents' ids, and how many passages they have together."""

    documents: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    passages: int = 0

    def __add__(self, other: Chosen) -> Chosen:
        """Both; no document may be in either."""
        pairs = sorted(
            (*zip(self.documents, self.versions, strict=True), *zip(other.documents, other.versions, strict=True))
        )
        return Chosen(tuple(id_ for id_, _ in pairs), tuple(v for _, v in pairs), self.passages + other.passages)


@dataclass(frozen=True, slots=True)
class Previous:
    """The generation that a publish changes."""

    ref: GenerationRef
    embedder: str
    chunker: str
    stack: Stack


@dataclass(frozen=True, slots=True)
class Plan:
    """What one publish will make true.

    `touched` are the ids of the documents that change, `added` the versions that those will show; a removed document
    has none. With `compacted` nothing changes but the layers: that base takes the place of all that generation
    `compacting_from` had. `stale` asks for a new base.
    """

    collection_id: str
    tenant: str
    collection: str
    number: int
    previous: Previous | None
    items: int
    touched: tuple[str, ...] = ()
    added: Chosen = field(default_factory=Chosen)
    stale: bool = False
    compacting_from: int | None = None
    compacted: SegmentRef | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What the publish has made: the manifest's digest, its layers and passages, fingerprints, and seconds it took.

    `since` is the oldest publish whose documents a new delta has; None where there is no new delta.
    """

    digest: str
    stack: Stack
    embedder: str
    chunker: str
    took: float
    since: int | None = None


class Generations:
    """Stores the catalog and the name under which this process takes leases."""

    def __init__(self, catalog: Catalog, backlog: Backlog) -> None:
        self._catalog = catalog
        self._owner = backlog.owner

    def home(self, collection_id: str) -> Path:
        """The folder of a collection's generations and segments."""
        return (self._catalog.options.generations / collection_id).absolute()

    def begin(self, collection_id: str) -> Plan | None:
        """Takes the collection and fixes what will be published; None when there is nothing to publish, or no lease.

        A document's uploads are published in the order in which they were accepted: one that is ready waits for an
        earlier one that is not. A base that was compacted is taken over by itself, before anything else.
        """
        now = self._catalog.now()
        with self._catalog.database.writing() as connection:
            free = and_(collections.c.id == collection_id, collections.c.leased_until <= now)
            row = connection.execute(select(collections).where(free).with_for_update()).one_or_none()
            if row is None:
                return None
            number: int = row.fence + 1
            waiting: str | None = None if row.stale else row.compacted
            ready = 0
            if waiting is None:
                planned = update(items).where(items.c.id.in_(_ready(collection_id))).values(planned=number)
                ready = connection.execute(planned).rowcount
                if not ready and not row.stale:
                    return None
            lease = {"fence": number, "owner": self._owner, "leased_until": now + self._catalog.options.lease_seconds}
            connection.execute(update(collections).where(collections.c.id == collection_id).values(lease))
        with self._catalog.database.reading() as connection:
            touched = connection.scalars(_touched(collection_id, number)).all() if ready else ()
            added = chosen(connection, _last(collection_id, number)) if ready else Chosen()
            previous = self._previous(connection, row)
        return Plan(
            collection_id=collection_id,
            tenant=row.tenant,
            collection=row.name,
            number=number,
            previous=previous,
            items=ready,
            touched=tuple(dict.fromkeys(touched)),
            added=added,
            stale=bool(row.stale),
            compacting_from=row.compacting_from,
            compacted=None if waiting is None else unpacked_segment(waiting),
        )

    def shown_since(self, plan: Plan, since: int) -> Chosen:
        """Documents that have come since that publish and do not change now; reads no others."""
        shown = and_(documents.c.collection_id == plan.collection_id, documents.c.since >= since)
        return self._shown(plan, select(documents.c.version_id).where(shown))

    def everything(self, plan: Plan) -> Chosen:
        """All documents as they will stand; it takes time in proportion to the collection."""
        shown = documents.c.collection_id == plan.collection_id
        return self._shown(plan, select(documents.c.version_id).where(shown)) + plan.added

    def changed_since(self, plan: Plan, number: int) -> tuple[str, ...]:
        """Ids of documents that generation `number` shows in a version that is not shown any more."""
        was_shown = and_(history.c.since <= number, history.c.until > number)
        query = select(history.c.document_id).where(and_(history.c.collection_id == plan.collection_id, was_shown))
        with self._catalog.database.reading() as connection:
            return tuple(connection.scalars(query))

    def renew(self, plan: Plan) -> bool:
        """A heartbeat; False when the collection is somebody else's, or gone."""
        until = self._catalog.now() + self._catalog.options.lease_seconds
        with self._catalog.database.writing() as connection:
            held = update(collections).where(_held(plan)).values(leased_until=until)
            return connection.execute(held).rowcount == 1

    def commit(self, plan: Plan, made: Made, *, whole: bool = False) -> tuple[str, ...]:
        """Moves pointer, documents and items together, and returns the jobs that moved. Raises LostLease.

        `whole` says that the generation has a new base, so that a compaction of the old one is of no use any more.
        """
        now = self._catalog.now()
        with self._catalog.database.writing() as connection:
            _move(connection, plan, made, whole=whole)
            held = _put_documents(connection, plan, now) if plan.items else _held_before(connection, plan)
            mine = and_(_planned(plan), items.c.state == ItemState.ENCODED)
            job_ids = connection.scalars(select(items.c.job_id).where(mine).distinct()).all() if plan.items else ()
            ended = case((items.c.action == KEPT, ItemState.UNCHANGED), else_=ItemState.PUBLISHED)
            published = {"state": ended, "generation": plan.number, "updated": now}
            if plan.items and connection.execute(update(items).where(mine).values(published)).rowcount != plan.items:
                raise LostLease(f"Generation {plan.number} of '{plan.collection}' holds documents of a cancelled job.")
            _put_generation(connection, plan, made, held, now)
        return tuple(job_ids)

    def abandon(self, plan: Plan, wait: float) -> None:
        """Lets go of the collection after a failure, for somebody to try again in `wait` seconds."""
        with self._catalog.database.writing() as connection:
            free = {"owner": None, "leased_until": self._catalog.now() + wait}
            connection.execute(update(collections).where(_held(plan)).values(free))

    def forget_compacted(self, plan: Plan) -> None:
        """Gives up a compacted base that cannot be taken over; the collection goes on as it is."""
        with self._catalog.database.writing() as connection:
            connection.execute(update(collections).where(_held(plan)).values(COMPACTED))

    def mark_stale(self, embedder: str) -> None:
        """Asks for a new generation of every collection whose current one was made by another embedder."""
        other = select(generations.c.number).where(
            and_(
                generations.c.collection_id == collections.c.id,
                generations.c.number == collections.c.generation,
                generations.c.embedder != embedder,
            )
        )
        with self._catalog.database.writing() as connection:
            connection.execute(update(collections).where(other.exists()).values(stale=1))

    def _previous(self, connection: Connection, collection: Record) -> Previous | None:
        at = and_(generations.c.collection_id == collection.id, generations.c.number == collection.generation)
        row = connection.execute(select(generations).where(at)).one_or_none()
        if row is None:
            return None
        folder = (self._catalog.options.generations / row.folder).absolute()
        ref = GenerationRef(collection.name, row.number, folder, row.digest)
        return Previous(ref, row.embedder, row.chunker, Stack(unpacked_layers(row.segments), row.passages))

    def _shown(self, plan: Plan, live: Query) -> Chosen:
        """Versions that are shown and stay so."""
        if plan.items:
            live = live.where(documents.c.id.not_in(_touched(plan.collection_id, plan.number)))
        with self._catalog.database.reading() as connection:
            return chosen(connection, live)


def relative_folder(collection_id: str, number: int) -> str:
    """Where a generation lies below the folder of generations."""
    return f"{collection_id}/g{number}"


def _held(plan: Plan) -> ColumnElement[bool]:
    return and_(collections.c.id == plan.collection_id, collections.c.fence == plan.number)


def _planned(plan: Plan) -> ColumnElement[bool]:
    return and_(items.c.collection_id == plan.collection_id, items.c.planned == plan.number)


def _changing(collection_id: str, number: int) -> ColumnElement[bool]:
    """Planned items that change their document. (Their state leads to them by an index; the number has none.)"""
    return and_(
        items.c.state == ItemState.ENCODED,
        items.c.collection_id == collection_id,
        items.c.planned == number,
        items.c.action != KEPT,
    )


def _ready(collection_id: str) -> Query:
    """Encoded items that no earlier upload of the same document still holds up, nor the rest of their re-cut."""
    earlier = items.alias("earlier")
    waits = select(earlier.c.id).where(
        and_(
            earlier.c.collection_id == items.c.collection_id,
            earlier.c.document_id == items.c.document_id,
            earlier.c.id < items.c.id,
            earlier.c.state.in_([ItemState.ACCEPTED, ItemState.PARSED]),
        )
    )
    return select(items.c.id).where(
        and_(
            items.c.collection_id == collection_id,
            items.c.state == ItemState.ENCODED,
            ~waits.exists(),
            ~held_back(),
        )
    )


def _touched(collection_id: str, number: int) -> Query:
    """Ids of the documents that change, some perhaps twice."""
    return select(items.c.document_id).where(_changing(collection_id, number))


def _last(collection_id: str, number: int) -> Query:
    """The last planned item of each document that changes: the one that has the last word.

    (Not by groups of documents: SQLite would go through all that the collection ever had, in the order of an index.)
    """
    later = items.alias("later")
    follows = select(later.c.id).where(
        and_(
            later.c.collection_id == items.c.collection_id,
            later.c.document_id == items.c.document_id,
            later.c.id > items.c.id,
            later.c.planned == number,
            later.c.state == ItemState.ENCODED,
            later.c.action != KEPT,
        )
    )
    return select(items.c.id).where(and_(_changing(collection_id, number), ~follows.exists()))


def chosen(connection: Connection, ids: Query | CompoundSelect[*tuple[Any, ...]]) -> Chosen:
    """The versions of these ids. (A removal has no version, so its item's id finds none.)"""
    query = select(versions.c.document_id, versions.c.id, versions.c.passages).where(versions.c.id.in_(ids))
    rows = connection.execute(query.order_by(versions.c.document_id)).all()
    return Chosen(
        tuple(row.document_id for row in rows), tuple(row.id for row in rows), sum(row.passages for row in rows)
    )


def _move(connection: Connection, plan: Plan, made: Made, *, whole: bool) -> None:
    """The compare-and-swap: one row has changed, or nothing has."""
    moved: dict[str, object] = {
        "generation": plan.number,
        "publish_took": made.took,
        "owner": None,
        "leased_until": 0.0,
    }
    if plan.stale:
        moved["stale"] = 0
    if whole or plan.compacted:
        moved |= COMPACTED | {"compacting_fence": collections.c.compacting_fence + 1}
    before = plan.previous.ref.number if plan.previous else None
    seen = collections.c.generation.is_not_distinct_from(before)
    if made.since is not None:  # else a compaction that began meanwhile would lose what was merged
        apart = or_(collections.c.compacting_from.is_(None), collections.c.compacting_from < made.since)
        seen = and_(seen, apart)
    if connection.execute(update(collections).where(and_(_held(plan), seen)).values(moved)).rowcount != 1:
        raise LostLease(
            f"Generation {plan.number} of '{plan.collection}' is not published: another publisher went on, "
            "a compaction began, it was rolled back, or the collection was deleted."
        )


def _held_before(connection: Connection, plan: Plan) -> int:
    """How many documents the generation before has."""
    if plan.previous is None:
        return 0
    at = and_(generations.c.collection_id == plan.collection_id, generations.c.number == plan.previous.ref.number)
    found: int = connection.scalars(select(generations.c.documents).where(at)).one()
    return found


def _put_documents(connection: Connection, plan: Plan, now: float) -> int:
    """Shows the new versions, remembers what stood before, and returns how many documents there are then."""
    touched = _touched(plan.collection_id, plan.number)
    changing = and_(documents.c.collection_id == plan.collection_id, documents.c.id.in_(touched))
    stood = select(
        documents.c.collection_id,
        documents.c.id,
        documents.c.since,
        literal(plan.number),
        documents.c.version_id,
        documents.c.updated,
    ).where(changing)
    columns = ["collection_id", "document_id", "since", "until", "version_id", "updated"]
    connection.execute(insert(history).from_select(columns, stood))
    gone = connection.execute(delete(documents).where(changing)).rowcount
    # A removal has no version, so the join leaves its document out.
    shown = select(
        versions.c.collection_id, versions.c.document_id, versions.c.id, literal(now), literal(plan.number)
    ).where(versions.c.id.in_(_last(plan.collection_id, plan.number)))
    columns = ["collection_id", "id", "version_id", "updated", "since"]
    connection.execute(insert(documents).from_select(columns, shown))
    return _held_before(connection, plan) - gone + len(plan.added.documents)


def _put_generation(connection: Connection, plan: Plan, made: Made, held: int, now: float) -> None:
    supersede(connection, plan.collection_id, now)
    connection.execute(
        insert(generations).values(
            collection_id=plan.collection_id,
            number=plan.number,
            folder=relative_folder(plan.collection_id, plan.number),
            digest=made.digest,
            embedder=made.embedder,
            chunker=made.chunker,
            documents=held,
            passages=made.stack.alive,
            published=now,
            **layered(made.stack.layers),
        )
    )


def supersede(connection: Connection, collection_id: str, now: float) -> None:
    """Says since when what served before serves no more."""
    before = and_(generations.c.collection_id == collection_id, generations.c.superseded.is_(None))
    connection.execute(update(generations).where(before).values(superseded=now))


def layered(layers: Sequence[Layer]) -> dict[str, object]:
    """The columns that tell of a generation's segments."""
    stack = Stack(tuple(layers))
    return {
        "segments": packed_layers(layers),
        "base_passages": stack.base,
        "delta_passages": stack.written - stack.base,
    }
