"""What is kept for a while only: the bytes of what failed, so that it can be tried again, and clients' keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, delete, func, or_, select, update

from ingest.catalog import Catalog
from ingest.progress import FINAL
from ingest.promising import CLIENTS, KEY_SECONDS
from ingest.schema import items, jobs, uploads
from pipeline.jobs import ItemState

_PURGED = 500  # uploads that one write deletes
_DONE = tuple(state for state in FINAL if state is not ItemState.FAILED)


class Retention:
    """Stores the catalog, whose options say how long and how much."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def purge(self) -> int:
        """Deletes what is kept no longer, and returns how many uploads that were."""
        purged = 0
        while ids := self._outlived():
            with self._catalog.database.writing() as connection:
                connection.execute(delete(uploads).where(uploads.c.item_id.in_(ids)))
            purged += len(ids)
        self._forget_keys()
        return purged

    def _outlived(self) -> Sequence[int]:
        """Uploads of what is done, of what failed too long ago, and of the oldest beyond the bytes that are kept."""
        before = self._catalog.now() - self._catalog.options.failed_seconds
        kept = select(items.c.id, items.c.state, items.c.updated, items.c.size).join_from(
            uploads, items, items.c.id == uploads.c.item_id
        )
        failed = kept.where(items.c.state == ItemState.FAILED).subquery()
        newer = func.sum(failed.c.size).over(order_by=(failed.c.updated.desc(), failed.c.id.desc()))
        summed = select(failed.c.id, newer.label("newer")).subquery()
        beyond = select(summed.c.id).where(summed.c.newer > self._catalog.options.failed_bytes).limit(_PURGED)
        old = and_(items.c.state == ItemState.FAILED, items.c.updated <= before)
        over = kept.with_only_columns(items.c.id).where(or_(items.c.state.in_(_DONE), old)).limit(_PURGED)
        with self._catalog.database.reading() as connection:
            return connection.scalars(over).all() or connection.scalars(beyond).all()

    def _forget_keys(self) -> None:
        old = and_(jobs.c.accepted <= self._catalog.now() - KEY_SECONDS, jobs.c.idempotency_key.startswith(CLIENTS))
        with self._catalog.database.reading() as connection:
            if connection.scalar(select(jobs.c.id).where(old).limit(1)) is None:
                return  # a write would make every other writer wait
        with self._catalog.database.writing() as connection:
            connection.execute(update(jobs).where(old).values(idempotency_key=None))
