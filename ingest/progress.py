"""How far a job is, read off its items: nothing is counted twice, so nothing can disagree."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, func, literal, or_, select

from ingest.database import Query, Record
from ingest.pace import pace_of
from ingest.schema import items, uploads
from pipeline.jobs import ItemState, Job, JobItem, JobState, PassageCounts, Rate, Webhook, WebhookState

FINAL = (ItemState.PUBLISHED, ItemState.UNCHANGED, ItemState.FAILED, ItemState.CANCELLED)
UNFINISHED = tuple(state for state in ItemState if state not in FINAL)
OVER = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
_FAILED_SHOWN = 100
_SENT = ("add", "passages")  # actions of items that came with bytes


def jobs_of(connection: Connection, rows: Sequence[Record], now: float) -> tuple[Job, ...]:
    """Jobs from their rows, in the same order, as they stand at `now`."""
    ids = [row.id for row in rows]
    query = (
        select(
            items.c.job_id,
            items.c.state,
            func.count(literal(1)).label("number"),
            func.max(items.c.updated).label("updated"),
            func.max(items.c.generation).label("generation"),
            func.sum(items.c.passages).label("passages"),
            func.sum(items.c.size).label("size"),
            func.min(items.c.parsed).label("parsed"),
            func.min(items.c.encoded).label("encoded"),
        )
        .where(items.c.job_id.in_(ids))
        .group_by(items.c.job_id, items.c.state)
    )
    groups: dict[str, dict[ItemState, Record]] = defaultdict(dict)
    for group in connection.execute(query):
        groups[group.job_id][ItemState(group.state)] = group
    return tuple(_job(connection, row, groups[row.id], now) for row in rows)


def _job(connection: Connection, row: Record, groups: dict[ItemState, Record], now: float) -> Job:
    counts = {state: int(group.number) for state, group in groups.items()}
    state = state_of(counts)
    over = state in OVER
    finished = max((group.updated for group in groups.values()), default=row.accepted) if over else None
    pace = None if over else pace_of(connection, row, groups, now)
    generations = [group.generation for group in groups.values() if group.generation is not None]
    return Job(
        id=row.id,
        tenant=row.tenant,
        collection=row.collection,
        kind=row.kind,
        state=state,
        total=row.total,
        accepted=row.accepted,
        finished=finished,
        counts=counts,
        failed=_failed(connection, row.id) if counts.get(ItemState.FAILED) else (),
        generation=max(generations, default=None) if over else None,
        passages=PassageCounts(
            chunked=_passages(groups, ItemState.PARSED, ItemState.ENCODED, ItemState.PUBLISHED),
            encoded=_passages(groups, ItemState.ENCODED, ItemState.PUBLISHED),
            published=_passages(groups, ItemState.PUBLISHED),
        ),
        rate=_rate_of_all(groups, finished - row.accepted) if finished is not None else pace.rate if pace else None,
        time_left=pace.time_left if pace else None,
        retryable=_retryable(connection, row.id) if over and counts.get(ItemState.FAILED) else 0,
        webhook=_webhook(row, over=over),
    )


def state_of(counts: dict[ItemState, int]) -> JobState:
    """A job is over when each of its documents is; it failed only when all of them did."""
    if any(state not in FINAL for state in counts):
        return JobState.ACCEPTED if set(counts) == {ItemState.ACCEPTED} else JobState.RUNNING
    if ItemState.CANCELLED in counts:
        return JobState.CANCELLED
    return JobState.FAILED if set(counts) == {ItemState.FAILED} else JobState.DONE


def job_items(
    connection: Connection, job_id: str, after: int, limit: int, state: ItemState | None = None
) -> tuple[JobItem, ...]:
    """Items in the order in which they were sent, from behind the `after`th on, in any or in one state."""
    query = _shown().where(and_(items.c.job_id == job_id, items.c.ordinal > after)).order_by(items.c.ordinal)
    if state is not None:
        query = query.where(items.c.state == state)
    return tuple(_item(row) for row in connection.execute(query.limit(limit)))


def _failed(connection: Connection, job_id: str) -> tuple[JobItem, ...]:
    query = _shown().where(and_(items.c.job_id == job_id, items.c.state == ItemState.FAILED))
    return tuple(_item(row) for row in connection.execute(query.order_by(items.c.ordinal).limit(_FAILED_SHOWN)))


def _shown() -> Query:
    columns = ("name", "document_id", "state", "reason", "ordinal", "passages", "warnings", "access")
    return select(*(items.c[name] for name in columns))


def _item(row: Record) -> JobItem:
    state = ItemState(row.state)
    return JobItem(
        name=row.name,
        document_id=row.document_id,
        state=state,
        reason=row.reason if state in FINAL else "",  # before that it is what went wrong the last time
        ordinal=row.ordinal,
        passages=row.passages,
        warnings=tuple(json.loads(row.warnings)),
        access=tuple(json.loads(row.access)),
    )


def _passages(groups: dict[ItemState, Record], *states: ItemState) -> int:
    return sum(int(groups[state].passages) for state in states if state in groups)


def _rate_of_all(groups: dict[ItemState, Record], seconds: float) -> Rate | None:
    if seconds <= 0:
        return None
    done = [group for state, group in groups.items() if state is not ItemState.CANCELLED]
    documents, passages = sum(int(group.number) for group in done), sum(int(group.passages) for group in done)
    return Rate(round(documents / seconds, 3), round(passages / seconds, 3))


def _retryable(connection: Connection, job_id: str) -> int:
    """Failed documents whose bytes are kept still, or that need none."""
    query = (
        select(func.count(literal(1)))
        .select_from(items.outerjoin(uploads, uploads.c.item_id == items.c.id))
        .where(and_(items.c.job_id == job_id, items.c.state == ItemState.FAILED, kept()))
    )
    return connection.scalars(query).one()


def kept() -> ColumnElement[bool]:
    """Of items beside their uploads: whether one can be begun again."""
    return or_(items.c.action.not_in(_SENT), uploads.c.item_id.is_not(None))


def _webhook(row: Record, *, over: bool) -> Webhook | None:
    if row.webhook is None:
        return None
    state = WebhookState(row.webhook_state)
    due = row.webhook_due if over and state is WebhookState.WAITING and row.webhook_attempts else None
    return Webhook(row.webhook, state, row.webhook_attempts, due, row.webhook_reason)
