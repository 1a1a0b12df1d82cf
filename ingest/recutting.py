"""What a collection has chosen of how its documents are cut, and what happens to documents when that changes.

    choose ──┬── documents under way are cut again, from their text as it was read; their own jobs tell of them
             └── published documents come into one refresh job, and take the place of the old cut in one publish

Readers see the old cut of a document until the new cut of all is there. What is sent meanwhile is published as soon as
it is ready, in the new cut: content does not wait for a change of form.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select, update

from ingest.progress import FINAL
from ingest.schema import collections, items, versions
from pipeline.chunking import Chunking, Cut
from pipeline.jobs import ItemState

REFRESH = "refresh"  # the action of an item whose document is to be cut anew
KEPT = "keep"  # the action of one whose document came out the same, and stays as it is
_CUT = ("add", "fetch")  # actions of items whose documents a chunker cuts
_OPTION = "chunking"
_READY = "ready-"  # how the fingerprint begins of what somebody has cut himself
_SUPERSEDED = "The collection's chunking was changed again meanwhile."


def chosen(connection: Connection, collection_id: str) -> Chunking | None:
    """The collection's own choice; None where it is cut as the workers' settings say, and where it is gone."""
    return _chunking(_options(connection, collection_id))


def choose(connection: Connection, collection_id: str, chunking: Chunking | None) -> bool:
    """Keeps a choice; False when it was the same before. The caller holds the collection's row."""
    options = _options(connection, collection_id)
    if _chunking(options) == chunking:
        return False
    options.pop(_OPTION, None)
    if chunking is not None:
        options[_OPTION] = asdict(chunking)
    kept = update(collections).where(collections.c.id == collection_id)
    connection.execute(kept.values(options=json.dumps(options, sort_keys=True)))
    return True


def cut_again(connection: Connection, collection_id: str, now: float) -> None:
    """Sends documents under way back to be cut by the new choice, and ends earlier re-cuts, which a new job replaces.

    Whoever has one in hand loses it by its fencing number. What was read of it is kept, so nothing is parsed twice.
    """
    unfinished = and_(items.c.collection_id == collection_id, items.c.state.not_in(FINAL))
    ended = and_(unfinished, items.c.action.in_([REFRESH, KEPT]))
    free = {"owner": None, "leased_until": 0.0, "fence": items.c.fence + 1, "updated": now}
    connection.execute(update(items).where(ended).values(state=ItemState.CANCELLED, reason=_SUPERSEDED, **free))
    again = and_(unfinished, items.c.action.in_(_CUT))
    connection.execute(update(items).where(again).values(state=ItemState.ACCEPTED, attempts=0, planned=None, **free))


def may_be_cut() -> ColumnElement[bool]:
    """Of `versions`, those that a chunker has cut: passages that were sent ready-made stay as they were sent."""
    return versions.c.chunker.not_like(f"{_READY}%")


def held_back() -> ColumnElement[bool]:
    """Of `items`, re-cut documents whose job is not through: they take over together, in one publish.

    One that a later upload replaces is not held back, so that both go into the same publish, in which the later one
    has the last word; it would undo that upload afterwards.
    """
    sibling, later, between = items.alias("sibling"), items.alias("later"), items.alias("between")
    unfinished = select(sibling.c.id).where(
        and_(sibling.c.job_id == items.c.job_id, sibling.c.state.in_([ItemState.ACCEPTED, ItemState.PARSED]))
    )
    waits = select(between.c.id).where(
        and_(
            between.c.collection_id == later.c.collection_id,
            between.c.document_id == later.c.document_id,
            between.c.id < later.c.id,
            between.c.state.in_([ItemState.ACCEPTED, ItemState.PARSED]),
        )
    )
    replaced = select(later.c.id).where(
        and_(
            later.c.collection_id == items.c.collection_id,
            later.c.document_id == items.c.document_id,
            later.c.id > items.c.id,
            later.c.state == ItemState.ENCODED,
            later.c.action.not_in([REFRESH, KEPT]),
            ~waits.correlate(later).exists(),
        )
    )
    recut = or_(items.c.action == REFRESH, items.c.action == KEPT)
    return and_(recut, unfinished.exists(), ~replaced.correlate(items).exists())


def _options(connection: Connection, collection_id: str) -> dict[str, Any]:
    query = select(collections.c.options).where(collections.c.id == collection_id)
    stored: str | None = connection.scalar(query)
    options: dict[str, Any] = json.loads(stored or "{}")
    return options


def _chunking(options: dict[str, Any]) -> Chunking | None:
    said: dict[str, Any] | None = options.get(_OPTION)
    if said is None:
        return None
    return Chunking(Cut(said["chunker"]), said["tokens"], said["overlap"], said["minimum"])
