"""Compaction: a new base of all that a generation shows, made while publishing goes on.

    generation 7:  base, d1, d2 ─────────────── compact ──────────────> a base of what 7 shows
    8, 9:          base, d1, d2, d3, d4                                 │
    10:            the new base ─ what has changed since 7, d3, d4  <───┘   by the next publish

Compaction only writes a segment and tells the catalog its name; the pointer is moved by a publisher, by the same
compare-and-swap as always. So nobody waits for it, and whoever dies at it has lost nothing but time: the segment is
garbage, and the next one begins anew. Its lease is one of its own, with its own fencing number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, select, update

from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.database import Record
from ingest.generations import Chosen, Generations, chosen
from ingest.layers import packed_segment
from ingest.leases import LostLease, kept
from ingest.schema import collections, documents, generations, history
from ingest.versions import Versions
from ingest.working import Told
from pipeline.passages import Passage
from pipeline.ports import GenerationWriter

_RENEWALS = 3  # heartbeats in the time of a lease
_REST = 60.0  # seconds before a compaction that went wrong is begun again
_ASK = 1000  # passages between two looks at the lease


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is compacted: the generation, and the versions that it shows."""

    collection_id: str
    collection: str
    fence: int
    number: int
    embedder: str
    chosen: Chosen


class Compactions:
    """The lease: who compacts a collection, and from which generation on."""

    def __init__(self, catalog: Catalog, backlog: Backlog) -> None:
        self._catalog = catalog
        self._owner = backlog.owner

    def begin(self, collection_id: str) -> Snapshot | None:
        """Takes the collection for compaction; None when somebody has it, or there is nothing to compact.

        From here on no delta that the generation has is merged with a later one, so a publish that is about to do that
        fails, and is begun anew.
        """
        now = self._catalog.now()
        free = and_(
            collections.c.id == collection_id,
            collections.c.compacting_until <= now,
            collections.c.compacted.is_(None),
            collections.c.generation.is_not(None),
        )
        with self._catalog.database.writing() as connection:
            row = connection.execute(select(collections).where(free).with_for_update()).one_or_none()
            if row is None:
                return None
            fence: int = row.compacting_fence + 1
            taken = {
                "compacting_fence": fence,
                "compacting_owner": self._owner,
                "compacting_until": now + self._catalog.options.lease_seconds,
                "compacting_from": row.generation,
            }
            connection.execute(update(collections).where(collections.c.id == collection_id).values(taken))
        return self._snapshot(row, fence)

    def renew(self, snapshot: Snapshot) -> bool:
        """A heartbeat; False when it is somebody else's, when a new base was published meanwhile, or it is gone."""
        until = self._catalog.now() + self._catalog.options.lease_seconds
        with self._catalog.database.writing() as connection:
            held = update(collections).where(_held(snapshot)).values(compacting_until=until)
            return connection.execute(held).rowcount == 1

    def finish(self, snapshot: Snapshot, segment: str) -> None:
        """Leaves the base for the next publish. Raises LostLease."""
        done = {"compacting_owner": None, "compacting_until": 0.0, "compacted": segment}
        with self._catalog.database.writing() as connection:
            if connection.execute(update(collections).where(_held(snapshot)).values(done)).rowcount != 1:
                raise _lost(snapshot)

    def abandon(self, snapshot: Snapshot, wait: float) -> None:
        """Lets go after a failure, for somebody to begin anew in `wait` seconds."""
        free = {
            "compacting_owner": None,
            "compacting_until": self._catalog.now() + wait,
            "compacting_from": None,
        }
        with self._catalog.database.writing() as connection:
            connection.execute(update(collections).where(_held(snapshot)).values(free))

    def _snapshot(self, row: Record, fence: int) -> Snapshot:
        """What the generation shows, whatever was published since: documents that stand, and those that stood."""
        number: int = row.generation
        stands = select(documents.c.version_id).where(
            and_(documents.c.collection_id == row.id, documents.c.since <= number)
        )
        stood = select(history.c.version_id).where(
            and_(history.c.collection_id == row.id, history.c.since <= number, history.c.until > number)
        )
        at = and_(generations.c.collection_id == row.id, generations.c.number == number)
        with self._catalog.database.reading() as connection:
            embedder = connection.scalars(select(generations.c.embedder).where(at)).one()
            found = chosen(connection, stands.union_all(stood))
        return Snapshot(row.id, row.name, fence, number, embedder, found)


class CompactStep:
    """Compacts one collection. `told` wakes whoever publishes."""

    def __init__(
        self,
        catalog: Catalog,
        writer: GenerationWriter,
        told: Told,
    ) -> None:
        backlog = Backlog(catalog)
        self._compactions = Compactions(catalog, backlog)
        self._generations = Generations(catalog, backlog)
        self._versions = Versions(catalog)
        self._beat = catalog.options.lease_seconds / _RENEWALS
        self._writer = writer
        self._told = told

    def compact(self, collection_id: str) -> int | None:
        """Returns the number of the generation that was compacted, or None when there was nothing to do.

        Raises LostLease when the work was of no use any more.
        """
        snapshot = self._compactions.begin(collection_id)
        if snapshot is None:
            return None
        try:
            with kept(lambda: self._compactions.renew(snapshot), self._beat) as held:
                segment = self._written(snapshot, held)
            self._compactions.finish(snapshot, segment)
        except BaseException as error:
            self._compactions.abandon(snapshot, 0.0 if isinstance(error, LostLease) else _REST)
            raise
        self._told(())
        return snapshot.number

    def _written(self, snapshot: Snapshot, held: Callable[[], bool]) -> str:
        shown, embedder = snapshot.chosen, snapshot.embedder
        vectors = self._versions.matrix(shown.versions, shown.passages, embedder, self._versions.dimensions(embedder))
        passages = self._asking(snapshot, self._versions.passages(shown.versions), held)
        home = self._generations.home(snapshot.collection_id)
        return packed_segment(self._writer.write_segment(home, passages, vectors))

    def _asking(self, snapshot: Snapshot, passages: Iterator[Passage], held: Callable[[], bool]) -> Iterator[Passage]:
        """Ends a work of minutes soon after it has become useless."""
        for place, passage in enumerate(passages):
            if place % _ASK == 0 and not held():
                raise _lost(snapshot)
            yield passage


def _held(snapshot: Snapshot) -> ColumnElement[bool]:
    return and_(collections.c.id == snapshot.collection_id, collections.c.compacting_fence == snapshot.fence)


def _lost(snapshot: Snapshot) -> LostLease:
    return LostLease(
        f"'{snapshot.collection}@{snapshot.number}' is not compacted: somebody else does it, a new base was published "
        "or rolled back to meanwhile, or the collection was deleted."
    )
