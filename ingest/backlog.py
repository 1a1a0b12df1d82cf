"""The backlog: documents that were accepted and are not done, taken by lease, a batch at a time.

    accepted --parse--> parsed --encode--> encoded --publish--> published
        └── unchanged, failed, cancelled

A document that is cut anew and comes out the same skips to encoded, as KEPT: the publish that it waits for ends it as
unchanged, so that a job that asked for a new generation is not done before there is one.

The catalog's rows are the queue. A message in Redis only says that it is worth looking here. (The file is longer than a
module should be: who may take a row, and when it is due, are one rule in a few queries.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, delete, func, literal, or_, select, update

from ingest.catalog import Catalog
from ingest.layers import LayerOptions
from ingest.leases import is_gone, this_process
from ingest.progress import FINAL
from ingest.recutting import KEPT, held_back
from ingest.schema import collections, documents, generations, items, uploads, versions
from pipeline.jobs import ItemState


class Step(StrEnum):
    """What can be done for a collection; each is a task."""

    PARSE = "parse"
    ENCODE = "encode"
    PUBLISH = "publish"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class Due:
    """Work that nobody holds: how many items of a collection wait for a step, or passages to be compacted away."""

    step: Step
    collection_id: str
    items: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One item, held by this process under `fence`. `was_read` tells that its text is kept, and needs no parsing."""

    item_id: int
    fence: int
    job_id: str
    collection_id: str
    document_id: str
    name: str
    action: str
    media_type: str | None
    metadata: str
    content_hash: str
    access: str = "[]"
    options: str = "{}"
    was_read: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """How much is claimed at once: so many items, of so much (bytes to parse, passages to encode) together."""

    items: int
    size: int


class Backlog:
    """Stores the catalog and the name under which this process takes leases."""

    def __init__(self, catalog: Catalog, owner: str | None = None) -> None:
        self._catalog = catalog
        self.owner = owner or this_process()

    def claim(self, collection_id: str, state: ItemState, batch: Batch) -> tuple[Claim, ...]:
        """Takes the oldest items in that state that nobody holds; empty when there are none.

        An item that was begun before, and whose worker did not come back, is taken alone: should it kill its worker,
        then it fails alone.
        """
        now, options = self._catalog.now(), self._catalog.options
        size = versions.c.passages if state is ItemState.PARSED else items.c.size
        query = (
            select(items, func.coalesce(size, 0).label("weight"), versions.c.id.label("version_id"))
            .select_from(items.outerjoin(versions, versions.c.id == items.c.id))
            .where(and_(items.c.collection_id == collection_id, items.c.state == state, _free(now, options.attempts)))
            .order_by(items.c.id)
            .limit(batch.items)
            .with_for_update(of=items, skip_locked=True)  # says nothing on SQLite, where only one writes
        )
        with self._catalog.database.writing() as connection:
            rows = connection.execute(query).all()
            taken, weight = list(rows[:1]), rows[0].weight if rows else 0
            for row in rows[1:]:
                weight += row.weight
                if taken[0].attempts or row.attempts or weight > batch.size:
                    break
                taken.append(row)
            values = {
                "owner": self.owner,
                "fence": items.c.fence + 1,
                "attempts": items.c.attempts + 1,
                "leased_until": now + options.lease_seconds,
            }
            connection.execute(update(items).where(items.c.id.in_([row.id for row in taken])).values(values))
        return tuple(
            Claim(
                item_id=row.id,
                fence=row.fence + 1,
                job_id=row.job_id,
                collection_id=row.collection_id,
                document_id=row.document_id,
                name=row.name,
                action=row.action,
                media_type=row.media_type,
                metadata=row.metadata,
                content_hash=row.content_hash,
                access=row.access,
                options=row.options,
                was_read=row.version_id is not None,
            )
            for row in taken
        )

    def renew(self, claims: Sequence[Claim]) -> bool:
        """A heartbeat; False when none of the claims is held any more."""
        until = self._catalog.now() + self._catalog.options.lease_seconds
        with self._catalog.database.writing() as connection:
            held = self.held(connection, claims)
            self._write(connection, held, leased_until=until)
        return bool(held)

    def content(self, claim: Claim) -> bytes:
        """The bytes that were sent."""
        with self._catalog.database.reading() as connection:
            return bytes(connection.scalars(select(uploads.c.content).where(uploads.c.item_id == claim.item_id)).one())

    def settle_unchanged(self, claims: Sequence[Claim], chunker: str) -> tuple[Claim, ...]:
        """Ends those whose document stands published just so, read by the same chunker; returns the others.

        A document that an earlier upload may still change is not compared: the last upload has the last word. One
        that was to be cut anew waits, as it is, for the generation that its job asked for.
        """
        with self._catalog.database.writing() as connection:
            held = self.held(connection, claims)
            same = {row.id: row.generation for row in connection.execute(_unchanged(held, chunker))}
            for claim in held:
                if claim.item_id not in same:
                    continue
                if claim.action == "refresh":
                    self.finish(connection, [claim], ItemState.ENCODED, action=KEPT)
                else:
                    self.finish(connection, [claim], ItemState.UNCHANGED, generation=same[claim.item_id])
        return tuple(claim for claim in held if claim.item_id not in same)

    def give_back(
        self, claims: Sequence[Claim], *, begun: Sequence[Claim] = (), reason: str = "", wait: float = 0.0
    ) -> None:
        """Returns leases. Those that were `begun` keep their count of attempts, and rest `wait` seconds."""
        with self._catalog.database.writing() as connection:
            held = self.held(connection, claims)
            untouched = [claim for claim in held if claim not in begun]
            self._write(connection, untouched, owner=None, leased_until=0.0, attempts=items.c.attempts - 1)
            rest = {"owner": None, "leased_until": self._catalog.now() + wait, "reason": reason}
            self._write(connection, [claim for claim in held if claim in begun], **rest)

    def held(self, connection: Connection, claims: Sequence[Claim]) -> list[Claim]:
        """Those of the claims that nobody has taken over or cancelled; within a write they stay held to its end."""
        query = select(items.c.id, items.c.fence).where(items.c.id.in_([claim.item_id for claim in claims]))
        query = query.where(and_(items.c.state.not_in(FINAL), items.c.owner == self.owner)).with_for_update()
        fences = {row.id: row.fence for row in connection.execute(query)}
        return [claim for claim in claims if fences.get(claim.item_id) == claim.fence]

    def finish(self, connection: Connection, held: Sequence[Claim], state: ItemState, **values: Any) -> None:
        """Moves held items on and lets go of them. What failed keeps its bytes for a while, to be tried again."""
        now = self._catalog.now()
        if state in FINAL and state is not ItemState.FAILED:
            connection.execute(delete(uploads).where(uploads.c.item_id.in_([claim.item_id for claim in held])))
        came = {ItemState.ENCODED: "encoded", **dict.fromkeys(_READ, "parsed")}
        moved = {"reason": "", **values, "state": state, "owner": None, "leased_until": 0.0, "attempts": 0}
        self._write(connection, held, **moved, **({came[state]: now} if state in came else {}), updated=now)

    def recover(self) -> tuple[str, ...]:
        """Frees what processes held that are gone, fails what was begun too often, and returns the jobs of those."""
        now, limit = self._catalog.now(), self._catalog.options.attempts
        with self._catalog.database.reading() as connection:
            unfinished = and_(items.c.state.in_(_WORKED_ON), items.c.owner.is_not(None))
            owners: Iterable[str] = connection.scalars(
                select(items.c.owner)
                .where(unfinished)
                .union(
                    select(collections.c.owner).where(collections.c.owner.is_not(None)),
                    select(collections.c.compacting_owner).where(collections.c.compacting_owner.is_not(None)),
                )
            ).all()
            spent = and_(items.c.state.in_(_WORKED_ON), items.c.attempts >= limit)
            any_spent = connection.scalar(select(func.count(literal(1))).where(spent))
        gone = [owner for owner in owners if is_gone(owner)]
        if not gone and not any_spent:
            return ()
        with self._catalog.database.writing() as connection:
            free = {"owner": None, "leased_until": 0.0}
            connection.execute(update(items).where(and_(unfinished, items.c.owner.in_(gone))).values(free))
            connection.execute(update(collections).where(collections.c.owner.in_(gone)).values(free))
            compacted_by = collections.c.compacting_owner.in_(gone)
            given_up = {"compacting_owner": None, "compacting_until": 0.0}
            connection.execute(update(collections).where(compacted_by).values(given_up))
            over = and_(spent, or_(items.c.owner.is_(None), items.c.leased_until <= now))
            rows = connection.execute(select(items.c.id, items.c.job_id, items.c.reason).where(over)).all()
            for row in rows:
                cause = f"The last time: {row.reason}" if row.reason else "Each time its worker process ended."
                reason = f"It was begun {limit} times without success and is given up. {cause}"
                values = {"state": ItemState.FAILED, "reason": reason, "owner": None, "updated": now}
                connection.execute(update(items).where(items.c.id == row.id).values(values))
        return tuple({row.job_id for row in rows})

    def due(self) -> tuple[Due, ...]:
        """What could be done now, publishing first."""
        now, options = self._catalog.now(), self._catalog.options
        free = (
            select(items.c.collection_id, items.c.state, func.count(literal(1)).label("number"))
            .where(and_(items.c.state.in_(_WORKED_ON), _free(now, options.attempts)))
            .group_by(items.c.collection_id, items.c.state)
            .order_by(items.c.collection_id)
        )
        with self._catalog.database.reading() as connection:
            publishable = connection.execute(_publishable(now, options.publish_seconds)).all()
            waiting = connection.execute(free).all()
            wasteful = connection.execute(_wasteful(now, options.layers)).all()
        steps = {ItemState.ACCEPTED: Step.PARSE, ItemState.PARSED: Step.ENCODE}
        return (
            *(Due(Step.PUBLISH, row.id, int(row.ready)) for row in publishable),
            *(Due(steps[ItemState(row.state)], row.collection_id, row.number) for row in waiting),
            *(Due(Step.COMPACT, row.id, int(row.waste)) for row in wasteful),
        )

    def _write(self, connection: Connection, held: Sequence[Claim], **values: Any) -> None:
        connection.execute(update(items).where(items.c.id.in_([c.item_id for c in held])).values(**values))


_WORKED_ON = (ItemState.ACCEPTED, ItemState.PARSED)
_READ = (ItemState.PARSED, ItemState.UNCHANGED, ItemState.FAILED)  # states that an item goes to from being accepted
_PUBLISH_SHARE = 4  # times the last publish's length is waited before the next, while documents keep coming


def _free(now: float, attempts: int) -> Any:
    return and_(items.c.leased_until <= now, items.c.attempts < attempts)


def _unchanged(claims: Sequence[Claim], chunker: str) -> Any:
    """Ids of claimed items whose document is published with the same bytes, metadata, labels, name and chunker."""
    earlier = items.alias("earlier")
    pending = select(earlier.c.id).where(
        and_(
            earlier.c.collection_id == items.c.collection_id,
            earlier.c.document_id == items.c.document_id,
            earlier.c.id < items.c.id,
            earlier.c.state.not_in(FINAL),
        )
    )
    live = and_(documents.c.collection_id == items.c.collection_id, documents.c.id == items.c.document_id)
    return (
        select(items.c.id, collections.c.generation)
        .join_from(items, documents, live)
        .join(versions, versions.c.id == documents.c.version_id)
        .join(collections, collections.c.id == items.c.collection_id)
        .where(
            and_(
                items.c.id.in_([claim.item_id for claim in claims]),
                versions.c.content_hash == items.c.content_hash,
                versions.c.metadata == items.c.metadata,
                versions.c.access == items.c.access,
                versions.c.chunker == chunker,
                ~pending.exists(),
            )
        )
    )


def _publishable(now: float, publish_seconds: float) -> Any:
    """Collections with encoded items that are complete, or have waited long enough for those still under way."""
    busy = select(items.c.id).where(and_(items.c.collection_id == collections.c.id, items.c.state.in_(_WORKED_ON)))
    ready = (
        select(items.c.collection_id, func.count(literal(1)).label("ready"), func.min(items.c.updated).label("since"))
        .where(and_(items.c.state == ItemState.ENCODED, ~held_back()))
        .group_by(items.c.collection_id)
        .subquery()
    )
    waited = now - ready.c.since
    enough = and_(waited >= publish_seconds, waited >= _PUBLISH_SHARE * collections.c.publish_took)
    return (
        select(collections.c.id, func.coalesce(ready.c.ready, 0).label("ready"))
        .select_from(collections.outerjoin(ready, ready.c.collection_id == collections.c.id))
        .where(
            and_(
                collections.c.leased_until <= now,
                or_(ready.c.ready.is_not(None), collections.c.stale != 0, collections.c.compacted.is_not(None)),
                or_(~busy.exists(), enough),
            )
        )
        .order_by(ready.c.since, collections.c.id)
    )


def _wasteful(now: float, options: LayerOptions) -> Any:
    """Collections that nobody compacts, whose current generation has too much in deltas, or dead, or that were asked
    for; `waste` counts passages as `layers.py` does."""
    current = and_(generations.c.collection_id == collections.c.id, generations.c.number == collections.c.generation)
    written = generations.c.base_passages + generations.c.delta_passages
    waste = written - generations.c.passages + generations.c.delta_passages
    too_much = and_(waste > options.compact_share * generations.c.base_passages, written > options.small)
    return (
        select(collections.c.id, waste.label("waste"))
        .join_from(collections, generations, current)
        .where(
            and_(
                collections.c.compacting_until <= now,
                collections.c.compacted.is_(None),
                collections.c.stale == 0,
                or_(collections.c.compact != 0, too_much),
            )
        )
        .order_by(collections.c.id)
    )
