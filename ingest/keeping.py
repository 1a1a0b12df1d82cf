"""What may be done with a collection's generations: listed, pinned, rolled back to, dropped, compacted.

Rolling back publishes an earlier generation once more, under the next number and in one transaction: the pointer, the
documents as they stood then, and a new fencing number, so that whoever was about to publish or to compact changes
nothing. No file is read or written. What was accepted and is not published yet is published on top of it, as ever; a
job that was to cut published documents anew is ended, since it began from what was just taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, literal, select, update

from ingest.catalog import Catalog
from ingest.database import Record
from ingest.generations import COMPACTED, supersede
from ingest.layers import Stack, unpacked_layers
from ingest.progress import UNFINISHED
from ingest.pruning import drop, forget_history
from ingest.recutting import KEPT, REFRESH
from ingest.schema import collections, documents, generations, history, items, readers
from pipeline.errors import Conflict, NotFound
from pipeline.jobs import GenerationInfo, ItemState
from pipeline.ports import GenerationRef

_ROLLED_BACK = "The collection was rolled back before it was cut anew."


class Keeping:
    """Stores the catalog. Every method raises NotFound for an unknown collection or generation."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def list(self, tenant: str, collection: str) -> tuple[GenerationInfo, ...]:
        """Those that are kept, the newest first."""
        with self._catalog.database.reading() as connection:
            return self._listed(connection, _found(connection, tenant, collection))

    def ref(self, tenant: str, collection: str, number: int | None = None) -> GenerationRef:
        """Where a generation lies; without a number, the current one. Raises Conflict before the first publish."""
        with self._catalog.database.reading() as connection:
            at = _found(connection, tenant, collection)
            row = _generation(connection, at, _published(at) if number is None else number)
        return GenerationRef(
            collection, row.number, (self._catalog.options.generations / row.folder).absolute(), row.digest
        )

    def pin(self, tenant: str, collection: str, number: int, *, pinned: bool = True) -> GenerationInfo:
        """Keeps a generation until it is unpinned, whatever becomes of it."""
        with self._catalog.database.writing() as connection:
            at = _found(connection, tenant, collection, held=True)
            _generation(connection, at, number)
            connection.execute(update(generations).where(_is(at, number)).values(pinned=int(pinned)))
            return _one(self._listed(connection, at), number)

    def roll_back(self, tenant: str, collection: str, number: int) -> GenerationInfo:
        """Serves generation `number` again, under a new number, and returns that.

        Raises Conflict for one that serves already, that another embedder has made, or whose documents nobody knows.
        """
        now = self._catalog.now()
        with self._catalog.database.writing() as connection:
            at = _found(connection, tenant, collection, held=True)
            target = _generation(connection, at, number)
            _check(connection, at, target)
            new: int = at.fence + 1
            _restore(connection, at.id, number, new)
            supersede(connection, at.id, now)
            later = and_(generations.c.collection_id == at.id, generations.c.number > number)
            connection.execute(update(generations).where(later).values(withdrawn=1))
            kept = {column: getattr(target, column) for column in _KEPT_COLUMNS}
            connection.execute(insert(generations).values(**kept, number=new, published=now))
            moved = {
                "generation": new,
                "fence": new,
                "owner": None,
                "leased_until": 0.0,
                "compacting_fence": collections.c.compacting_fence + 1,
                **COMPACTED,
            }
            connection.execute(update(collections).where(collections.c.id == at.id).values(moved))
            _end_recutting(connection, at.id, now)
            return _one(self._listed(connection, _found(connection, tenant, collection)), new)

    def drop(self, tenant: str, collection: str) -> tuple[int, ...]:
        """Forgets what a sweep would forget later: superseded generations that nobody reads; returns their numbers.

        Kept are the current one, the one that would serve in its place, and pinned ones. Workers free the space.
        """
        with self._catalog.database.writing() as connection:
            at = _found(connection, tenant, collection, held=True)
            dropped = drop(connection, at, self._catalog.now(), keep_seconds=0.0)
            if dropped:
                forget_history(connection, at.id)
        return dropped

    def compact(self, tenant: str, collection: str) -> GenerationInfo:
        """Asks for a compaction that is not due by itself, and returns what will be compacted."""
        with self._catalog.database.writing() as connection:
            at = _found(connection, tenant, collection, held=True)
            current = _one(self._listed(connection, at), _published(at))
            if not current.written:
                raise Conflict(f"'{collection}@{current.number}' holds no passage, so there is nothing to compact.")
            connection.execute(update(collections).where(collections.c.id == at.id).values(compact=1))
        return current

    def _listed(self, connection: Connection, collection: Record) -> tuple[GenerationInfo, ...]:
        mine = generations.c.collection_id == collection.id
        rows = connection.execute(select(generations).where(mine).order_by(generations.c.number.desc())).all()
        now = self._catalog.now()
        live = and_(readers.c.collection_id == collection.id, readers.c.until > now)
        counted = select(readers.c.number, func.count(literal(1)).label("held")).where(live)
        held = {row.number: row.held for row in connection.execute(counted.group_by(readers.c.number))}
        return tuple(_info(row, collection, int(held.get(row.number, 0))) for row in rows)


_KEPT_COLUMNS = (
    "collection_id",
    "folder",
    "digest",
    "embedder",
    "chunker",
    "documents",
    "passages",
    "segments",
    "base_passages",
    "delta_passages",
)


def _found(connection: Connection, tenant: str, name: str, *, held: bool = False) -> Record:
    query = select(collections).where(and_(collections.c.tenant == tenant, collections.c.name == name))
    row = connection.execute(query.with_for_update() if held else query).one_or_none()
    if row is None:
        known = select(collections.c.name).where(collections.c.tenant == tenant).order_by(collections.c.name).limit(10)
        raise NotFound("collection", name, connection.scalars(known))
    return row


def _published(collection: Record) -> int:
    if collection.generation is None:
        raise Conflict(f"Nothing of '{collection.name}' is published yet.")
    return int(collection.generation)


def _is(collection: Record, number: int) -> ColumnElement[bool]:
    return and_(generations.c.collection_id == collection.id, generations.c.number == number)


def _generation(connection: Connection, collection: Record, number: int) -> Record:
    row = connection.execute(select(generations).where(_is(collection, number))).one_or_none()
    if row is None:
        known = select(generations.c.number).where(generations.c.collection_id == collection.id)
        numbers = connection.scalars(known.order_by(generations.c.number.desc()).limit(10))
        raise NotFound("generation", str(number), map(str, numbers))
    return row


def _check(connection: Connection, collection: Record, target: Record) -> None:
    current = _generation(connection, collection, _published(collection))
    name = f"'{collection.name}@{target.number}'"
    if target.folder == current.folder:
        raise Conflict(f"{name} is what serves already, so there is nothing to roll back.")
    if target.embedder != current.embedder:
        raise Conflict(
            f"{name} was made with the embedder '{target.embedder}', and '{current.embedder}' is in use: vectors of "
            "two models never meet. Start the workers with the former to have the collection made anew."
        )
    newer = and_(
        generations.c.collection_id == collection.id,
        generations.c.number > target.number,
        generations.c.segments == "[]",
    )
    if target.segments == "[]" and connection.execute(select(generations.c.number).where(newer)).first():
        raise Conflict(
            f"{name} was published by an earlier release, which did not keep what its documents were. Only the last "
            "generation of that release can be rolled back to."
        )


def _restore(connection: Connection, collection_id: str, number: int, new: int) -> None:
    """Shows the documents of generation `number` again; `history` says until when what stood meanwhile did."""
    came = and_(documents.c.collection_id == collection_id, documents.c.since > number)
    went = and_(history.c.collection_id == collection_id, history.c.since <= number, history.c.until > number)
    stood = select(
        documents.c.collection_id,
        documents.c.id,
        documents.c.since,
        literal(new),
        documents.c.version_id,
        documents.c.updated,
    ).where(came)
    columns = ["collection_id", "document_id", "since", "until", "version_id", "updated"]
    connection.execute(insert(history).from_select(columns, stood))
    connection.execute(delete(documents).where(came))
    again = select(
        history.c.collection_id, history.c.document_id, history.c.version_id, history.c.updated, literal(new)
    ).where(went)
    columns = ["collection_id", "id", "version_id", "updated", "since"]
    connection.execute(insert(documents).from_select(columns, again))


def _end_recutting(connection: Connection, collection_id: str, now: float) -> None:
    unfinished = and_(
        items.c.collection_id == collection_id,
        items.c.state.in_(UNFINISHED),
        items.c.action.in_([REFRESH, KEPT]),
    )
    ended = {"state": ItemState.CANCELLED, "reason": _ROLLED_BACK, "owner": None, "updated": now}
    connection.execute(update(items).where(unfinished).values(ended))


def _info(row: Record, collection: Record, held: int) -> GenerationInfo:
    stack = Stack(unpacked_layers(row.segments), row.passages)
    folder = int(Path(row.folder).name.removeprefix("g"))
    return GenerationInfo(
        number=row.number,
        current=row.number == collection.generation,
        documents=row.documents,
        passages=row.passages,
        written=stack.written or row.passages,
        segments=stack.segments,
        size=stack.size,
        published=row.published,
        superseded=row.superseded,
        pinned=bool(row.pinned),
        withdrawn=bool(row.withdrawn),
        restores=folder if folder != row.number else None,
        readers=held,
    )


def _one(listed: Sequence[GenerationInfo], number: int) -> GenerationInfo:
    (found,) = (each for each in listed if each.number == number)
    return found
