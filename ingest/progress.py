"""How far a job is, read off its items: nothing is counted twice, so nothing can disagree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, func, literal, select

from ingest.database import Query, Record
from ingest.schema import items
from pipeline.jobs import ItemState, Job, JobItem, JobState

FINAL = (ItemState.PUBLISHED, ItemState.UNCHANGED, ItemState.FAILED, ItemState.CANCELLED)
UNFINISHED = tuple(state for state in ItemState if state not in FINAL)
_FAILED_SHOWN = 100


def jobs_of(connection: Connection, rows: Sequence[Record]) -> tuple[Job, ...]:
    """Jobs from their rows, in the same order."""
    ids = [row.id for row in rows]
    query = (
        select(
            items.c.job_id,
            items.c.state,
            func.count(literal(1)).label("number"),
            func.max(items.c.updated).label("updated"),
            func.max(items.c.generation).label("generation"),
        )
        .where(items.c.job_id.in_(ids))
        .group_by(items.c.job_id, items.c.state)
    )
    groups: dict[str, list[Record]] = defaultdict(list)
    for group in connection.execute(query):
        groups[group.job_id].append(group)
    return tuple(_job(connection, row, groups[row.id]) for row in rows)


def _job(connection: Connection, row: Record, groups: Sequence[Record]) -> Job:
    counts = {ItemState(group.state): group.number for group in groups}
    state = state_of(counts)
    over = state in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}
    return Job(
        id=row.id,
        tenant=row.tenant,
        collection=row.collection,
        kind=row.kind,
        state=state,
        total=row.total,
        accepted=row.accepted,
        finished=max((group.updated for group in groups), default=row.accepted) if over else None,
        counts=counts,
        failed=_failed(connection, row.id) if counts.get(ItemState.FAILED) else (),
        generation=max((g.generation for g in groups if g.generation is not None), default=None) if over else None,
    )


def state_of(counts: Mapping[ItemState, int]) -> JobState:
    """A job is over when each of its documents is; it failed only when all of them did."""
    if any(state not in FINAL for state in counts):
        return JobState.ACCEPTED if set(counts) == {ItemState.ACCEPTED} else JobState.RUNNING
    if ItemState.CANCELLED in counts:
        return JobState.CANCELLED
    return JobState.FAILED if set(counts) == {ItemState.FAILED} else JobState.DONE


def job_items(connection: Connection, job_id: str, after: int, limit: int) -> tuple[JobItem, ...]:
    """Items in the order in which they were sent, without the first `after` ones."""
    query = _shown().where(and_(items.c.job_id == job_id, items.c.ordinal > after)).order_by(items.c.ordinal)
    return tuple(_item(row) for row in connection.execute(query.limit(limit)))


def _failed(connection: Connection, job_id: str) -> tuple[JobItem, ...]:
    query = _shown().where(and_(items.c.job_id == job_id, items.c.state == ItemState.FAILED))
    return tuple(_item(row) for row in connection.execute(query.order_by(items.c.ordinal).limit(_FAILED_SHOWN)))


def _shown() -> Query:
    return select(items.c.name, items.c.document_id, items.c.state, items.c.reason)


def _item(row: Record) -> JobItem:
    state = ItemState(row.state)
    return JobItem(row.name, row.document_id, state, row.reason if state in FINAL else "")
