"""Generations in the catalog: who may publish, what, and the row that says which one serves.

A publisher takes the collection's next number under a lease. The number is its fencing number and the generation's:
an attempt that fails leaves a gap. The pointer moves by compare-and-swap in one transaction with the documents and
the items that it makes true; a publisher whose number is no longer the last one changes nothing.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, insert, literal, or_, select, update

from ingest.backlog import KEPT, Backlog
from ingest.catalog import Catalog
from ingest.database import Query
from ingest.leases import LostLease
from ingest.schema import collections, documents, generations, items, versions
from pipeline.jobs import ItemState

_NUMBER = re.compile(r"g(\d+)")


@dataclass(frozen=True, slots=True)
class Plan:
    """What one publish will make true. `versions` are those of all live documents, in the order of document ids."""

    collection_id: str
    tenant: str
    collection: str
    number: int
    previous: int | None
    items: int
    versions: tuple[int, ...]
    passages: int


@dataclass(frozen=True, slots=True)
class Made:
    """What the publish has made: the manifest's digest, fingerprints, and how many seconds it took."""

    digest: str
    embedder: str
    chunker: str
    took: float


class Generations:
    """Stores the catalog and the name under which this process takes leases."""

    def __init__(self, catalog: Catalog, backlog: Backlog) -> None:
        self._catalog = catalog
        self._owner = backlog.owner

    def folder(self, collection_id: str, number: int) -> Path:
        """Where a generation lives."""
        return (self._catalog.options.generations / _relative(collection_id, number)).absolute()

    def begin(self, collection_id: str) -> Plan | None:
        """Takes the collection and fixes what will be published; None when there is nothing to publish, or no lease.

        A document's uploads are published in the order in which they were accepted: one that is ready waits for an
        earlier one that is not.
        """
        now = self._catalog.now()
        with self._catalog.database.writing() as connection:
            free = and_(collections.c.id == collection_id, collections.c.leased_until <= now)
            row = connection.execute(select(collections).where(free).with_for_update()).one_or_none()
            if row is None:
                return None
            number: int = row.fence + 1
            planned = update(items).where(items.c.id.in_(_ready(collection_id))).values(planned=number)
            ready = connection.execute(planned).rowcount
            if not ready and not row.stale:
                return None
            lease = {"fence": number, "owner": self._owner, "leased_until": now + self._catalog.options.lease_seconds}
            connection.execute(update(collections).where(collections.c.id == collection_id).values(lease))
        with self._catalog.database.reading() as connection:
            chosen = connection.execute(_chosen(collection_id, number)).all()
        return Plan(
            collection_id=collection_id,
            tenant=row.tenant,
            collection=row.name,
            number=number,
            previous=row.generation,
            items=ready,
            versions=tuple(each.id for each in chosen),
            passages=sum(each.passages for each in chosen),
        )

    def renew(self, plan: Plan) -> bool:
        """A heartbeat; False when the collection is somebody else's, or gone."""
        until = self._catalog.now() + self._catalog.options.lease_seconds
        with self._catalog.database.writing() as connection:
            held = update(collections).where(_held(plan)).values(leased_until=until)
            return connection.execute(held).rowcount == 1

    def commit(self, plan: Plan, made: Made) -> tuple[str, ...]:
        """Moves pointer, documents and items together, and returns the jobs that moved. Raises LostLease."""
        now = self._catalog.now()
        with self._catalog.database.writing() as connection:
            moved = {
                "generation": plan.number,
                "publish_took": made.took,
                "stale": 0,
                "owner": None,
                "leased_until": 0.0,
            }
            seen = collections.c.generation.is_not_distinct_from(plan.previous)
            if connection.execute(update(collections).where(and_(_held(plan), seen)).values(moved)).rowcount != 1:
                raise LostLease(
                    f"Generation {plan.number} of '{plan.collection}' is not published: another publisher went on, "
                    "or the collection was deleted."
                )
            _put_documents(connection, plan, now)
            mine = and_(_planned(plan), items.c.state == ItemState.ENCODED)
            job_ids = connection.scalars(select(items.c.job_id).where(mine).distinct()).all()
            ended = case((items.c.action == KEPT, ItemState.UNCHANGED), else_=ItemState.PUBLISHED)
            published = {"state": ended, "generation": plan.number, "updated": now}
            if connection.execute(update(items).where(mine).values(published)).rowcount != plan.items:
                raise LostLease(f"Generation {plan.number} of '{plan.collection}' holds documents of a cancelled job.")
            _put_generation(connection, plan, made, now)
        return tuple(job_ids)

    def abandon(self, plan: Plan, wait: float) -> None:
        """Lets go of the collection after a failure, for somebody to try again in `wait` seconds."""
        with self._catalog.database.writing() as connection:
            free = {"owner": None, "leased_until": self._catalog.now() + wait}
            connection.execute(update(collections).where(_held(plan)).values(free))

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

    def prune(self) -> int:
        """Deletes generations that nobody can still be reading, and folders that no row knows; returns how many.

        Kept are the current one, the one before, what was superseded a moment ago, and what is being built.
        """
        root, now = self._catalog.options.generations, self._catalog.now()
        folders = [folder for place in _inside(root) for folder in _inside(place)]
        with self._catalog.database.writing() as connection:
            connection.execute(delete(generations).where(_outlived(now - self._catalog.options.keep_seconds)))
            known = {Path(folder).parts for folder in connection.scalars(select(generations.c.folder))}
            fences = {row.id: row for row in connection.execute(select(collections))}
        pruned = 0
        for folder in folders:
            collection, number = fences.get(folder.parent.name), _NUMBER.search(folder.name)
            # What is newer than the last publisher was begun while we looked.
            building = collection is not None and (
                number is None
                or int(number[1]) > collection.fence
                or (int(number[1]) == collection.fence and collection.leased_until > now)
            )
            if folder.relative_to(root).parts not in known and not building:
                shutil.rmtree(folder, ignore_errors=True)
                pruned += 1
        for place in _inside(root):
            if place.name not in fences and not _inside(place):
                place.rmdir()
        return pruned


def _relative(collection_id: str, number: int) -> str:
    return f"{collection_id}/g{number}"


def _inside(folder: Path) -> Sequence[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else ()


def _held(plan: Plan) -> ColumnElement[bool]:
    return and_(collections.c.id == plan.collection_id, collections.c.fence == plan.number)


def _planned(plan: Plan) -> ColumnElement[bool]:
    return and_(items.c.collection_id == plan.collection_id, items.c.planned == plan.number)


def _changing(collection_id: str, number: int) -> ColumnElement[bool]:
    """Planned items that change their document."""
    return and_(items.c.collection_id == collection_id, items.c.planned == number, items.c.action != KEPT)


def _ready(collection_id: str) -> Query:
    """Encoded items that no earlier upload of the same document still holds up."""
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
        and_(items.c.collection_id == collection_id, items.c.state == ItemState.ENCODED, ~waits.exists())
    )


def _last(collection_id: str, number: int) -> Query:
    """The last planned item of each document that changes: the one that has the last word."""
    return select(func.max(items.c.id)).where(_changing(collection_id, number)).group_by(items.c.document_id)


def _chosen(collection_id: str, number: int) -> Query:
    """Versions of the documents as they will stand, by document id: planned ones, and untouched live ones."""
    touched = select(items.c.document_id).where(_changing(collection_id, number))
    live = select(documents.c.version_id).where(
        and_(documents.c.collection_id == collection_id, documents.c.id.not_in(touched))
    )
    return (
        select(versions.c.id, versions.c.passages)
        .where(
            and_(
                versions.c.collection_id == collection_id,
                or_(versions.c.id.in_(live), versions.c.id.in_(_last(collection_id, number))),
            )
        )
        .order_by(versions.c.document_id)
    )


def _put_documents(connection: Connection, plan: Plan, now: float) -> None:
    touched = select(items.c.document_id).where(_changing(plan.collection_id, plan.number))
    in_collection = documents.c.collection_id == plan.collection_id
    connection.execute(delete(documents).where(and_(in_collection, documents.c.id.in_(touched))))
    # A removal has no version, so the join leaves its document out.
    shown = select(versions.c.collection_id, versions.c.document_id, versions.c.id, literal(now)).where(
        versions.c.id.in_(_last(plan.collection_id, plan.number))
    )
    connection.execute(insert(documents).from_select(["collection_id", "id", "version_id", "updated"], shown))


def _put_generation(connection: Connection, plan: Plan, made: Made, now: float) -> None:
    before = and_(generations.c.collection_id == plan.collection_id, generations.c.superseded.is_(None))
    connection.execute(update(generations).where(before).values(superseded=now))
    connection.execute(
        insert(generations).values(
            collection_id=plan.collection_id,
            number=plan.number,
            folder=_relative(plan.collection_id, plan.number),
            digest=made.digest,
            embedder=made.embedder,
            chunker=made.chunker,
            documents=len(plan.versions),
            passages=plan.passages,
            published=now,
        )
    )


def _outlived(before: float) -> ColumnElement[bool]:
    """Generations superseded before that time, except the last of them; and those of deleted collections."""
    later = generations.alias("later")
    previous = select(func.max(later.c.number)).where(
        and_(later.c.collection_id == generations.c.collection_id, later.c.superseded.is_not(None))
    )
    deleted = generations.c.collection_id.not_in(select(collections.c.id))
    superseded = and_(generations.c.superseded < before, generations.c.number < previous.scalar_subquery())
    return or_(deleted, superseded)
