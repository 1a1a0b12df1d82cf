"""From claimed URLs to uploads that can be read: fetched, and settled where there is nothing to read.

A server is asked only for what has changed where the document stands published just as it would become now: read by the
same chunker, with the same metadata and labels, from the state that the validators name. So "not modified" always means
that there is nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import and_, func, literal, select, update

from ingest.accepting import content_hash
from ingest.backlog import Backlog, Claim
from ingest.catalog import Catalog
from ingest.database import unpacked, unpacked_labels
from ingest.fetching import Answer, Asked, Fetched, Fetches, Unfetchable
from ingest.origins import note_url
from ingest.progress import FINAL
from ingest.schema import collections, documents, items, origins, versions
from pipeline.jobs import ItemState
from pipeline.origins import Validators
from pipeline.passages import Upload

FETCH = "fetch"  # the action of an item whose content is fetched when its turn comes
AGAIN, GONE = "url.again", "url.gone"  # options of such an item: ask without conditions; what a 404 does
REMOVE = "remove"
_NOT_ASKED = frozenset({AGAIN, GONE})


@dataclass(frozen=True, slots=True)
class Brought:
    """What came of one claim: an upload to read, or the reason why there is none, or neither: it is settled.

    `claim` has the hash of what was fetched.
    """

    claim: Claim
    upload: Upload | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Standing:
    """How the document of a claim stands: the version that is published (None for none), and what to ask with."""

    version_id: int | None
    validators: Validators


class Bringing:
    """Fetches what claimed items name. Stores the catalog and whoever fetches."""

    def __init__(self, catalog: Catalog, backlog: Backlog, fetcher: Fetches) -> None:
        self._catalog = catalog
        self._backlog = backlog
        self._fetcher = fetcher

    def bring(self, claims: Sequence[Claim], chunker: str) -> dict[int, Brought]:
        """What came of each claim, by the item's id; all are fetched at the same time.

        `chunker` is the fingerprint of the one that would cut them.
        """
        standing = [self._standing(claim, chunker) for claim in claims]
        asked = [Asked(claim.name, each.validators) for claim, each in zip(claims, standing, strict=True)]
        answers = self._fetcher.fetch(asked)
        return {
            claim.item_id: self._brought(claim, each, answer, chunker)
            for claim, each, answer in zip(claims, standing, answers, strict=True)
        }

    def _brought(self, claim: Claim, standing: _Standing, answer: Answer, chunker: str) -> Brought:
        if answer.failure is not None:
            return self._failed(claim, standing, answer.failure)
        if answer.fetched is not None:
            return self._fetched(claim, answer.fetched, chunker)
        self._unchanged(claim, standing)
        return Brought(claim)

    def _standing(self, claim: Claim, chunker: str) -> _Standing:
        """With validators only where nothing that is on its way could change the document before this claim does."""
        query = (
            select(versions.c.id, origins.c.url, origins.c.etag, origins.c.last_modified, origins.c.version_id)
            .add_columns(
                and_(
                    versions.c.metadata == claim.metadata,
                    versions.c.access == claim.access,
                    versions.c.chunker == chunker,
                ).label("same")
            )
            .select_from(
                documents.join(versions, versions.c.id == documents.c.version_id).outerjoin(
                    origins,
                    and_(
                        origins.c.collection_id == documents.c.collection_id,
                        origins.c.document_id == documents.c.id,
                    ),
                )
            )
            .where(and_(documents.c.collection_id == claim.collection_id, documents.c.id == claim.document_id))
        )
        with self._catalog.database.reading() as connection:
            row = connection.execute(query).one_or_none()
            before = connection.scalar(_before(claim))
        if row is None:
            return _Standing(None, Validators())
        asks = row.same and row.version_id == row.id and not before and not _options(claim).get(AGAIN)
        known = Validators(row.url, row.etag or "", row.last_modified or "") if asks else Validators()
        return _Standing(row.id, known)

    def _unchanged(self, claim: Claim, standing: _Standing) -> None:
        """Ends the item, unless its document became another one while the server was asked: then it asks again."""
        generation = select(collections.c.generation).where(collections.c.id == claim.collection_id)
        with self._catalog.database.writing() as connection:
            held = self._backlog.held(connection, [claim])
            if connection.scalar(_shown(claim)) == standing.version_id and not connection.scalar(_before(claim)):
                number = connection.scalar(generation)
                self._backlog.finish(connection, held, ItemState.UNCHANGED, generation=number)
                looked = and_(
                    origins.c.collection_id == claim.collection_id, origins.c.document_id == claim.document_id
                )
                connection.execute(update(origins).where(looked).values(checked=self._catalog.now()))
                return
        self._backlog.give_back([claim])

    def _failed(self, claim: Claim, standing: _Standing, failure: Unfetchable) -> Brought:
        """A page that is gone takes its document along only where that was asked for."""
        reason = str(failure)
        if not failure.gone or standing.version_id is None:
            return Brought(claim, reason=reason)
        if _options(claim).get(GONE) == REMOVE:
            with self._catalog.database.writing() as connection:
                held = self._backlog.held(connection, [claim])
                self._backlog.finish(connection, held, ItemState.ENCODED, action="remove")
            return Brought(claim)
        return Brought(claim, reason=f'{reason} The document stays as it was; "gone": "remove" removes such.')

    def _fetched(self, claim: Claim, fetched: Fetched, chunker: str) -> Brought:
        """Files the hash of what came, and ends the item where that is what stands published."""
        hash_ = content_hash(fetched.content, _options(claim))
        came = replace(claim, content_hash=hash_, media_type=fetched.media_type or None)
        values = {
            "content_hash": came.content_hash,
            "media_type": came.media_type,
            "size": len(fetched.content),
        }
        with self._catalog.database.writing() as connection:
            if self._backlog.held(connection, [claim]):
                connection.execute(update(items).where(items.c.id == claim.item_id).values(values))
        changed = self._backlog.settle_unchanged([came], chunker)
        with self._catalog.database.writing() as connection:
            version_id = claim.item_id if changed else connection.scalar(_shown(claim))
            note_url(
                self._catalog.database,
                connection,
                claim.collection_id,
                claim.document_id,
                fetched.validators,
                version_id,
                self._catalog.now(),
            )
        if not changed:
            return Brought(came)
        options = {name: value for name, value in _options(claim).items() if name not in _NOT_ASKED}
        metadata, labels = unpacked(claim.metadata), unpacked_labels(claim.access)
        return Brought(came, Upload(claim.name, fetched.content, came.media_type, metadata, labels, options))


def _before(claim: Claim) -> Any:
    """Counts items of the same document that were accepted before this one and are not done."""
    return select(func.count(literal(1))).where(
        and_(
            items.c.collection_id == claim.collection_id,
            items.c.document_id == claim.document_id,
            items.c.id < claim.item_id,
            items.c.state.not_in(FINAL),
        )
    )


def _shown(claim: Claim) -> Any:
    """The id of the version that is published."""
    return select(documents.c.version_id).where(
        and_(documents.c.collection_id == claim.collection_id, documents.c.id == claim.document_id)
    )


def _options(claim: Claim) -> dict[str, Any]:
    options: dict[str, Any] = json.loads(claim.options)
    return options
