"""`GET /v1/collections/{collection}/documents/{document_id}/passages`: what a document was cut into."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.holdings import CollectionName, DocumentId
from api.service import enter
from api.wire import ErrorOut, MetadataOut
from pipeline.passages import Passage, Scope

router = APIRouter(tags=["documents"])


class PieceOut(BaseModel):
    """A passage in its place: `text` begins `start` characters from the beginning of the section `parent`."""

    id: str
    text: str
    tokens: int
    heading: list[str]
    page: int | None
    parent: str | None = Field(description="The section that it was cut from; equal for all of its passages.")
    start: int
    previous: str | None
    next: str | None
    content_hash: str
    metadata: MetadataOut


class PiecesOut(BaseModel):
    """A page of passages in the document's order; `next` is the `after` of the page behind it, null on the last."""

    data: list[PieceOut]
    next: int | None


@router.get(
    "/v1/collections/{collection}/documents/{document_id}/passages",
    responses={200: {"model": PiecesOut}, "default": {"model": ErrorOut}},
)
async def passages(
    collection: CollectionName,
    document_id: DocumentId,
    request: Request,
    after: Annotated[int, Query(ge=-1, description="An ordinal; the page begins behind it.")] = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The passages of a published document, as they are searched."""
    here = enter(request, Scope.READ)
    found = await here.catalog(
        lambda it: it.passages(
            here.tenant, collection, document_id, after=after, limit=limit + 1, labels=here.labels
        )  # one more tells of a next passage, and of a next page
    )
    page = found[:limit]
    pieces = [_piece(each, is_last=place + 1 == len(found)) for place, each in enumerate(page)]
    following = page[-1].ordinal if len(found) > limit else None
    body = PiecesOut(data=pieces, next=following)
    return Response(body.model_dump_json().encode(), media_type="application/json")


def _piece(passage: Passage, *, is_last: bool) -> PieceOut:
    beside = f"{passage.document_id}:"
    return PieceOut(
        id=passage.id,
        text=passage.text,
        tokens=passage.tokens,
        heading=list(passage.heading),
        page=passage.page,
        parent=passage.parent or None,
        start=passage.start,
        previous=f"{beside}{passage.ordinal - 1}" if passage.ordinal else None,
        next=None if is_last else f"{beside}{passage.ordinal + 1}",
        content_hash=passage.content_hash,
        metadata=dict(passage.metadata),
    )
