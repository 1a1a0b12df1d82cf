"""Readers: which generations a process of the service has open, or still answers a request from.

A row a process and generation, good for a minute or two and renewed while it is read, so that a slow stream's
generation is not pruned, and a process that died holds nothing for long.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from sqlalchemy import delete, insert

from ingest.catalog import Catalog
from ingest.leases import this_process
from ingest.schema import readers as table
from pipeline.errors import Unavailable
from pipeline.ports import GenerationRef

HELD_SECONDS = 120.0
RENEWED_SECONDS = 30.0
_log = logging.getLogger(__name__)


class Readers:
    """What this process reads. Blocks for the database, so call it in a lane."""

    def __init__(self, catalog: Catalog, process: str | None = None) -> None:
        self._catalog = catalog
        self._process = process or this_process()
        self._held: frozenset[tuple[str, int]] = frozenset()
        self._renewed = float("-inf")

    @classmethod
    @contextmanager
    def open(cls, catalog: Catalog, process: str | None = None) -> Generator[Readers, None, None]:
        """With the block's end nothing is read any more; what cannot be said while the catalog is away, time will."""
        readers = cls(catalog, process)
        try:
            yield readers
        finally:
            try:
                readers.hold(())
            except Unavailable as error:
                _log.warning("What was read here stays held for a while: %s", error.detail)

    def hold(self, refs: Iterable[GenerationRef]) -> bool:
        """Says that these are read, and no others; writes only what is new, and every half minute. True if it wrote."""
        now = self._catalog.now()
        held = frozenset((ref.folder.parent.name, ref.number) for ref in refs)
        if held == self._held and (not held or now - self._renewed < RENEWED_SECONDS):
            return False
        rows = [
            {"process": self._process, "collection_id": collection_id, "number": number, "until": now + HELD_SECONDS}
            for collection_id, number in sorted(held)
        ]
        with self._catalog.database.writing() as connection:
            connection.execute(delete(table).where(table.c.process == self._process))
            if rows:
                connection.execute(insert(table), rows)
        self._held, self._renewed = held, now
        return True
