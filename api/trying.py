"""`POST /v1/parse`: how documents would be read and cut, what in them is there twice, and nothing is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.service import CatalogRecords, Inside, enter
from api.tried import ParsedOut, Tried, told_of
from api.uploads import REQUEST_BODY, uploads_of
from api.wire import ErrorOut
from ingest.accepting import check_collection, check_uploads, content_hash, document_id
from pipeline.chunking import Chunking, chunking_of
from pipeline.clock import Budget, Stage
from pipeline.errors import FleetfootError, InvalidInput, NotAllowed, NotFound, OutOfTime
from pipeline.jobs import Offer, Repeated
from pipeline.lane import Ticket
from pipeline.passages import Scope, Upload

router = APIRouter(tags=["documents"])

LATE = "It was not looked at: reading those before it took all the time there is. Send fewer at once."
FULL = "All of the text and all passages, however many; else the beginning."


class NotLookedAt(FleetfootError):
    """There was no time left for this document."""

    code = OutOfTime.code


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of a dry run beside its documents; without a collection nothing is compared."""

    collection: str | None
    chunking: Chunking | None
    full: bool


@router.post(
    "/v1/parse", responses={200: {"model": ParsedOut}, "default": {"model": ErrorOut}}, openapi_extra=REQUEST_BODY
)
async def parse(
    request: Request,
    collection: Annotated[str | None, Query(description="Compared with what it has; cut as it is cut.")] = None,
    chunker: Annotated[str | None, Query(description="tokens, sentences, headings or whole, to try one.")] = None,
    tokens: Annotated[int | None, Query(description="The longest passage.")] = None,
    overlap: Annotated[int | None, Query(description="Tokens that repeat the passage before.")] = None,
    minimum: Annotated[int | None, Query(description="A section with fewer tokens joins its neighbour.")] = None,
    full: Annotated[bool, Query(description=FULL)] = False,
) -> Response:
    """Takes the same bodies as documents in, and tells of each what would come of it. Nothing is stored.

    They are read by the same parser, in a process of its own, and cut by the same chunker as workers use.
    """
    here = enter(request, Scope.INGEST)
    asked = _Asked(collection, _chunking(chunker, tokens, overlap, minimum), full)
    if collection is not None:
        check_collection(collection)
    if here.behind.previews is None:
        raise NotAllowed("This service reads no documents for a dry run. Send them, and look at the job.")
    uploads = await uploads_of(request, replace(here.limits, files=here.limits.previews))
    return Response(await _tried(here, asked, uploads), media_type="application/json")


def _chunking(chunker: str | None, tokens: int | None, overlap: int | None, minimum: int | None) -> Chunking | None:
    sizes = {"tokens": tokens, "overlap": overlap, "minimum": minimum}
    if chunker is not None:
        return chunking_of(chunker, **sizes)
    field = next((name for name, value in sizes.items() if value is not None), None)
    if field is not None:
        raise InvalidInput(f"'{field}' says nothing without a chunker. Name one beside it.", field=field)
    return None


async def _tried(here: Inside, asked: _Asked, uploads: Callable[[], list[Upload]]) -> bytes:
    """The answer, made on a thread of the lane: what is read is long, and the event loop is everybody's."""
    previews, limits = here.behind.previews, here.limits
    assert previews is not None  # noqa: S101  the route has looked
    clock = here.visit.clock(Budget(here.visit.elapsed() + limits.preview_deadline))
    run = _Run(here, asked, uploads, until=time.perf_counter() + limits.preview_deadline - limits.preview_seconds)
    async with clock.lap(Stage.PARSE) as lap:
        return await previews.lane.run(lap, run.work, needs=0)


class _Run:
    """One dry run. Documents are begun until `until`, so that the last one has its time."""

    def __init__(self, here: Inside, asked: _Asked, uploads: Callable[[], list[Upload]], until: float) -> None:
        self._here = here
        self._asked = asked
        self._uploads = uploads
        self._until = until
        self._catalog: CatalogRecords = here.stages.catalog

    def work(self, ticket: Ticket) -> bytes:
        """On a thread of the lane."""
        uploads = self._uploads()
        check_uploads(uploads)
        chosen = self._asked.chunking or self._chosen()
        tried = [self._one(place, upload, chosen, ticket) for place, upload in enumerate(uploads)]
        there, unchanged = self._compared(tried)
        told = told_of(tried, there, unchanged, full=self._asked.full)
        return told.model_dump_json().encode()

    def _chosen(self) -> Chunking | None:
        """As the collection is cut; as the workers' settings say where it is not there yet."""
        if self._asked.collection is None:
            return None
        try:
            return self._catalog.chunking(self._here.tenant, self._asked.collection).chunking
        except NotFound:
            return None

    def _one(self, place: int, upload: Upload, chosen: Chunking | None, ticket: Ticket) -> Tried:
        id_ = document_id(self._here.tenant, self._asked.collection or "", upload.name)
        tried = Tried(upload, id_, content_hash(upload.content, upload.options))
        if place and (not ticket.wanted() or time.perf_counter() > self._until):
            return replace(tried, error=NotLookedAt(LATE))
        previews = self._here.behind.previews
        assert previews is not None  # noqa: S101  the route has looked
        try:
            return replace(tried, preview=previews.previewer.preview(upload, id_, chosen, place))
        except InvalidInput as error:
            return replace(tried, error=error)

    def _compared(self, tried: Sequence[Tried]) -> tuple[Repeated, frozenset[str] | None]:
        """What the collection has already, and which of the documents would change nothing."""
        if self._asked.collection is None:
            return Repeated(), None
        offers = [
            Offer(each.upload.name, each.content_hash, each.upload.metadata, each.upload.access) for each in tried
        ]
        known = self._catalog.unneeded(self._here.tenant, self._asked.collection, offers)
        hashes = [passage.content_hash for each in tried if each.preview for passage in each.preview.passages]
        there = self._catalog.repeated(
            self._here.tenant,
            self._asked.collection,
            [each.content_hash for each in tried],
            hashes,
            labels=self._here.labels,
        )
        return there, frozenset(each.name for each in known)
