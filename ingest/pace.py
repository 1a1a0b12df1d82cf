"""How quickly a job goes and when it may be done, from what was read and encoded within the last half minute.

Reading and encoding go side by side, so what is left takes as long as the slower of the two, and then one publish. How
many passages are still to be cut is told from those that were: so many for each byte. Where one of these is not known
yet, or nothing has moved for the whole window, there is no time left to be told, rather than a wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, func, select

from ingest.database import Record
from ingest.schema import collections, items
from pipeline.jobs import ItemState, Rate

WINDOW = 30.0  # seconds
SEEN = 2.0  # seconds that have to be seen before they say anything


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate` is of the window; `time_left` in seconds. None where nothing can be said."""

    rate: Rate | None
    time_left: float | None


def pace_of(connection: Connection, row: Record, groups: Mapping[ItemState, Record], now: float) -> Pace:
    """The pace of a job that is not over, from its row and its items by state."""
    lately = _lately(connection, row, groups, now)
    if lately is None:
        return Pace(None, None)
    return Pace(lately.rate(), _time_left(lately, groups))


@dataclass(frozen=True, slots=True)
class _Lately:
    """What was done in so many seconds each; those are None where too few were seen."""

    read: int
    settled: int
    encoded: int
    passages: int
    reading: float | None
    encoding: float | None
    publish: float

    def rate(self) -> Rate | None:
        """Documents that will not be looked at again before publishing, and passages that were encoded."""
        if self.reading is None and self.encoding is None:
            return None
        settled = self.settled / self.reading if self.reading else 0.0
        encoded = self.encoded / self.encoding if self.encoding else 0.0
        passages = self.passages / self.encoding if self.encoding else 0.0
        return Rate(round(settled + encoded, 3), round(passages, 3))


def _lately(connection: Connection, row: Record, groups: Mapping[ItemState, Record], now: float) -> _Lately | None:
    """Counts what came after the first in the window: how long that one took nobody has seen."""
    first_read = min((group.parsed for group in groups.values() if group.parsed is not None), default=None)
    first_encoded = min((group.encoded for group in groups.values() if group.encoded is not None), default=None)
    if first_read is None and first_encoded is None:
        return None
    read_from = max(now - WINDOW, now if first_read is None else first_read)
    encoded_from = max(now - WINDOW, now if first_encoded is None else first_encoded)
    read, encoded = items.c.parsed > read_from, items.c.encoded > encoded_from
    ended = items.c.state.in_([ItemState.UNCHANGED, ItemState.FAILED])
    query = select(
        _times(read).label("read"),
        _times(read & ended).label("settled"),
        _times(encoded).label("encoded"),
        func.coalesce(func.sum(case((encoded, items.c.passages), else_=0)), 0).label("passages"),
    ).where(items.c.job_id == row.id)
    counted = connection.execute(query).one()
    publish = connection.scalar(select(collections.c.publish_took).where(collections.c.id == row.collection_id))
    return _Lately(
        read=int(counted.read),
        settled=int(counted.settled),
        encoded=int(counted.encoded),
        passages=int(counted.passages),
        reading=_seen(now - read_from, counted.read),
        encoding=_seen(now - encoded_from, counted.encoded),
        publish=publish or 0.0,
    )


def _times(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _seen(seconds: float, done: int) -> float | None:
    """Only a whole window in which nothing came says that nothing comes."""
    return seconds if seconds >= (SEEN if done else WINDOW) else None


def _time_left(lately: _Lately, groups: Mapping[ItemState, Record]) -> float | None:
    """None where a rate is missing, or where only the first publish of a collection is left: nobody knows that one."""
    unread = groups.get(ItemState.ACCEPTED)
    waiting = int(groups[ItemState.PARSED].passages) if ItemState.PARSED in groups else 0
    reading = encoding = 0.0
    if unread is not None:
        left = _duration(unread.number, lately.read, lately.reading)
        if left is None:
            return None
        reading = left
        waiting += _expected(unread, [group for state, group in groups.items() if state is not ItemState.ACCEPTED])
    if waiting:
        left = _duration(waiting, lately.passages, lately.encoding)
        if left is None:
            return None
        encoding = left
    if not lately.publish and not reading and not encoding:
        return None
    return round(max(reading, encoding) + lately.publish, 1)


def _duration(left: float, done: int, seconds: float | None) -> float | None:
    return left * seconds / done if seconds is not None and done else None


def _expected(unread: Record, read: list[Record]) -> int:
    """Passages that are likely to come of what was not read yet, by bytes; by documents where bytes say nothing."""
    passages, size = sum(int(group.passages) for group in read), sum(int(group.size) for group in read)
    if size:
        return round(int(unread.size) * passages / size)
    documents = sum(int(group.number) for group in read)
    return round(int(unread.number) * passages / documents) if documents else 0
