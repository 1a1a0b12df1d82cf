"""Pruning: generations that nobody can be reading any more, segments that none names, versions that none shows.

Kept are the current generation, the one that would serve in its place, pinned ones, what a reader holds or a compaction
works on, and what was superseded a moment ago. A segment is kept while a kept generation names it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, and_, delete, select, update

from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.database import Record
from ingest.layers import unpacked_layers, unpacked_segment
from ingest.schema import collections, generations, history, readers
from ingest.versions import Versions
from pipeline.ports import GenerationRemover

SEGMENTS = "segments"  # the folder of a collection's segments, beside its generations
_NUMBER = re.compile(r"g(\d+)")


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was deleted."""

    generations: int = 0
    folders: int = 0
    versions: int = 0


class Pruning:
    """`remover` takes folders off the disk."""

    def __init__(self, catalog: Catalog, backlog: Backlog, remover: GenerationRemover) -> None:
        self._catalog = catalog
        self._versions = Versions(catalog)
        self._owner = backlog.owner
        self._remover = remover

    def prune(self) -> Pruned:
        """One look at every collection. What is being built or compacted is left alone."""
        root = self._catalog.options.generations
        # Folders first: what is made after this look is in no list, and so is safe.
        found = {place.name: tuple(_entries(place)) for place in _entries(root)}
        with self._catalog.database.writing() as connection:
            ids = connection.scalars(select(collections.c.id)).all()
            deleted = generations.c.collection_id.not_in(select(collections.c.id))
            gone = connection.scalars(select(generations.c.collection_id).where(deleted).distinct()).all()
            for each in gone:
                connection.execute(delete(generations).where(generations.c.collection_id == each))
                connection.execute(delete(history).where(history.c.collection_id == each))
            connection.execute(delete(readers).where(readers.c.until <= self._catalog.now()))
        pruned = [Pruned(versions=self._versions.purge(each)) for each in gone]
        pruned += [self._prune(each, found.get(each, ())) for each in ids]
        pruned += [self._clear(root / name) for name in found.keys() - set(ids)]
        return Pruned(
            sum(each.generations for each in pruned),
            sum(each.folders for each in pruned),
            sum(each.versions for each in pruned),
        )

    def purge(self) -> int:
        """Deletes versions that nobody needs, and returns how many: a look at every version, worth it now and then."""
        return self._versions.purge()

    def _prune(self, collection_id: str, entries: Sequence[Path]) -> Pruned:
        now = self._catalog.now()
        with self._catalog.database.writing() as connection:
            row = _locked(connection, collection_id)
            if row is None:
                return Pruned()
            dropped = drop(connection, row, now, self._catalog.options.keep_seconds)
            unneeded = forget_history(connection, collection_id) if dropped else ()
            folders = connection.scalars(
                select(generations.c.folder).where(generations.c.collection_id == collection_id)
            ).all()
        versions = self._versions.purge_these(unneeded)
        known = {Path(folder).name for folder in folders}
        building = row.fence if row.leased_until > now else None
        garbage = [each for each in entries if _is_garbage(each, known, row.fence, building)]
        for folder in garbage:
            self._remover.remove(folder)
        segments = self._clear_segments(collection_id, entries)
        return Pruned(len(dropped), len(garbage) + segments, versions)

    def _clear_segments(self, collection_id: str, entries: Sequence[Path]) -> int:
        """Removes segments that nothing names, and what killed writers have left.

        A publisher may find a segment of the same content on the disk and name it, so it is kept out meanwhile: by its
        own lease, taken under the next number, so that one that was thought dead cannot come back either.
        """
        place = self._catalog.options.generations / collection_id / SEGMENTS
        found = (*_entries(place), *(each for each in entries if _is_unfinished(each)))
        if not found or not self._unnamed(collection_id, found):
            return 0
        number = self._take(collection_id)
        if number is None:
            return 0
        try:
            garbage = self._unnamed(collection_id, found)
            for folder in garbage:
                self._remover.remove(folder)
            return len(garbage)
        finally:
            with self._catalog.database.writing() as connection:
                mine = and_(collections.c.id == collection_id, collections.c.fence == number)
                connection.execute(update(collections).where(mine).values(owner=None, leased_until=0.0))

    def _unnamed(self, collection_id: str, found: Sequence[Path]) -> list[Path]:
        with self._catalog.database.reading() as connection:
            row = connection.execute(select(collections).where(collections.c.id == collection_id)).one_or_none()
            texts = connection.scalars(
                select(generations.c.segments).where(generations.c.collection_id == collection_id)
            ).all()
        if row is None:
            return []
        named = {layer.name for text in texts for layer in unpacked_layers(text)}
        if row.compacted is not None:
            named.add(unpacked_segment(row.compacted).name)
        compacting = row.compacting_until > self._catalog.now()
        return [each for each in found if each.name not in named and not (compacting and _may_be_compacted(each))]

    def _take(self, collection_id: str) -> int | None:
        """The publisher's lease; also bars a compaction that has lost its own from coming back."""
        now = self._catalog.now()
        with self._catalog.database.writing() as connection:
            row = _locked(connection, collection_id)
            if row is None or row.leased_until > now:
                return None
            number: int = row.fence + 1
            until = now + self._catalog.options.lease_seconds
            taken: dict[str, object] = {"fence": number, "owner": self._owner, "leased_until": until}
            if row.compacting_until <= now:
                taken["compacting_fence"] = row.compacting_fence + 1
            connection.execute(update(collections).where(collections.c.id == collection_id).values(taken))
        return number

    def _clear(self, place: Path) -> Pruned:
        """Everything of a collection that was deleted."""
        self._remover.remove(place)
        return Pruned(folders=1)


def drop(connection: Connection, collection: Record, now: float, keep_seconds: float) -> tuple[int, ...]:
    """Forgets the generations of a collection that nobody can be reading any more, and returns their numbers.

    The caller holds the collection's row.
    """
    mine = generations.c.collection_id == collection.id
    rows = connection.execute(select(generations).where(mine).order_by(generations.c.number)).all()
    live = and_(readers.c.collection_id == collection.id, readers.c.until > now)
    held = set(connection.scalars(select(readers.c.number).where(live)))
    held |= {collection.generation, collection.compacting_from, _stand_in(rows, collection.generation)}
    outlived = [
        row.number
        for row in rows
        if row.number not in held
        and not row.pinned
        and row.superseded is not None
        and row.superseded < now - keep_seconds
    ]
    if outlived:
        connection.execute(delete(generations).where(and_(mine, generations.c.number.in_(outlived))))
    return tuple(outlived)


def _stand_in(rows: Sequence[Record], current: int | None) -> int | None:
    """The generation that would serve if the current one were damaged: the newest other one that was not withdrawn."""
    folders = {row.folder for row in rows if row.number == current}
    others = [row.number for row in rows if row.number != current and not row.withdrawn and row.folder not in folders]
    return max(others, default=None)


def forget_history(connection: Connection, collection_id: str) -> tuple[int, ...]:
    """Forgets what no kept generation shows, and returns the versions; for when generations were dropped."""
    kept = select(generations.c.number).where(
        and_(
            generations.c.collection_id == history.c.collection_id,
            generations.c.number >= history.c.since,
            generations.c.number < history.c.until,
        )
    )
    unneeded = and_(history.c.collection_id == collection_id, ~kept.exists())
    versions = connection.scalars(select(history.c.version_id).where(unneeded)).all()
    if versions:
        connection.execute(delete(history).where(unneeded))
    return tuple(dict.fromkeys(versions))


def _locked(connection: Connection, collection_id: str) -> Record | None:
    query = select(collections).where(collections.c.id == collection_id).with_for_update()
    return connection.execute(query).one_or_none()


def _is_garbage(folder: Path, known: Collection[str], fence: int, building: int | None) -> bool:
    """Whether a generation's folder, complete or begun, has no row and will never get one."""
    number = _NUMBER.search(folder.name)
    if number is None or folder.name in known:
        return False
    # What is newer than the last publisher was begun while we looked.
    return int(number[1]) <= fence and int(number[1]) != building


def _is_unfinished(folder: Path) -> bool:
    return folder.name.startswith(".") and _NUMBER.search(folder.name) is None


def _may_be_compacted(folder: Path) -> bool:
    return folder.name.startswith((".", "base-"))


def _entries(folder: Path) -> Sequence[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else ()
