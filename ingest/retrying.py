"""What failed in a job, for another try: without sending anything again, as long as the bytes are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, select, update

from ingest.database import Record
from ingest.progress import UNFINISHED, kept
from ingest.schema import items, uploads
from pipeline.errors import Conflict, NoLongerKept
from pipeline.jobs import ItemState

_SAME = ("document_id", "name", "action", "media_type", "metadata", "access", "options", "content_hash", "size")
_REPLACED = "It was sent again, or removed, after this had failed; that stands."
_GONE = "Its bytes are not kept any more. Send it again."


@dataclass(frozen=True, slots=True)
class Retry:
    """Rows of a new job, and by their place in it (from 1) the items whose bytes they take over."""

    rows: Sequence[dict[str, Any]]
    taken_over: Mapping[int, int]


def retry_of_failed(connection: Connection, job: Record, collection_id: str) -> Retry:
    """Within a write that holds the collection: the failed documents of `job`, a row of the table.

    A document that was sent or removed since is left as it is then, and told of as unchanged: an old upload must not
    replace a new one. One whose bytes are gone fails again. Raises Conflict when there is nothing to retry, and
    NoLongerKept when nothing of it can be.
    """
    if job.collection_id != collection_id:
        raise NoLongerKept(
            f"The collection '{job.collection}' was deleted after job {job.id}. Send its documents again."
        )
    under_way = select(items.c.id).where(and_(items.c.job_id == job.id, items.c.state.in_(UNFINISHED))).limit(1)
    if connection.scalar(under_way) is not None:
        raise Conflict(f"Job {job.id} is not over yet. Retry what failed when it is, or cancel it first.")
    failed = connection.execute(_failed(job.id)).all()
    if not failed:
        raise Conflict(f"Nothing failed in job {job.id}, so there is nothing to retry.")
    replaced = set(connection.scalars(_replaced(collection_id, job.id)))
    rows: list[dict[str, Any]] = []
    taken_over: dict[int, int] = {}
    for place, row in enumerate(failed, start=1):
        state, reason = ItemState.ACCEPTED, ""
        if row.document_id in replaced:
            state, reason = ItemState.UNCHANGED, _REPLACED
        elif not row.kept:
            state, reason = ItemState.FAILED, _GONE
        elif row.upload is not None:
            taken_over[place] = row.id
        rows.append({**{name: getattr(row, name) for name in _SAME}, "state": state, "reason": reason})
    if all(row["state"] is not ItemState.ACCEPTED for row in rows):
        raise _hopeless(job.id, rows)
    return Retry(rows, taken_over)


def take_over(connection: Connection, job_id: str, retry: Retry) -> None:
    """Within the same write: the bytes become those of the new job's items, so that they are kept once."""
    if not retry.taken_over:
        return
    places = {row.ordinal: row.id for row in connection.execute(_places(job_id))}
    moved = [{"before": before, "after": places[place]} for place, before in retry.taken_over.items()]
    change = update(uploads).where(uploads.c.item_id == bindparam("before")).values(item_id=bindparam("after"))
    connection.execute(change, moved)


def _failed(job_id: str) -> Any:
    return (
        select(items, kept().label("kept"), uploads.c.item_id.label("upload"))
        .select_from(items.outerjoin(uploads, uploads.c.item_id == items.c.id))
        .where(and_(items.c.job_id == job_id, items.c.state == ItemState.FAILED))
        .order_by(items.c.ordinal)
    )


def _replaced(collection_id: str, job_id: str) -> Any:
    """Ids of the job's documents that a later request has changed or is about to change."""
    later = items.alias("later")
    ended = [ItemState.FAILED, ItemState.CANCELLED]
    again = and_(
        later.c.collection_id == collection_id,
        later.c.document_id == items.c.document_id,
        later.c.id > items.c.id,
        later.c.state.not_in(ended),
    )
    return select(items.c.document_id).where(
        and_(
            items.c.job_id == job_id,
            items.c.state == ItemState.FAILED,
            select(later.c.id).where(again).exists(),
        )
    )


def _places(job_id: str) -> Any:
    return select(items.c.ordinal, items.c.id).where(items.c.job_id == job_id)


def _hopeless(job_id: str, rows: Sequence[Mapping[str, Any]]) -> Conflict | NoLongerKept:
    if any(row["state"] is ItemState.FAILED for row in rows):
        return NoLongerKept(
            f"The bytes of what failed in job {job_id} are not kept any more. Send those documents again; "
            f"GET /v1/jobs/{job_id}/failed.csv lists them."
        )
    return Conflict(f"All that failed in job {job_id} was sent again or removed since, so there is nothing to retry.")
