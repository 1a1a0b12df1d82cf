"""What a tenant holds: collections, and the documents in them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.generations import dead_share
from api.job_shapes import JobOut, accepted
from api.service import Inside, enter
from api.terms import IdempotencyKey, WebhookUrl
from api.wire import ErrorOut, MetadataOut
from pipeline.jobs import Collection, DocumentInfo, Terms
from pipeline.passages import Scope

router = APIRouter(tags=["collections"])

CollectionName = Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})]
DocumentId = Annotated[str, Path(openapi_examples={"a document": {"value": "5f0c2d7e9b1a4c3d8e6f7a90"}})]


class CollectionOut(BaseModel):
    """A named set of documents, and the generation of it that is searched (null before the first)."""

    name: str
    documents: int
    passages: int
    generation: int | None
    created: float
    segments: int = Field(default=0, description="Of that generation: a base and its deltas.")
    dead_share: float = Field(default=0.0, description="Of the passages in them, those that are shown no more.")
    size_bytes: int | None = Field(default=None, description="Of the segments; null where it is not known.")


class CollectionsOut(BaseModel):
    """By name."""

    data: list[CollectionOut]


class DeletedOut(BaseModel):
    """What is gone."""

    name: str
    deleted: bool = True


class DocumentOut(BaseModel):
    """A document as it is searched. `content_hash` is the hex sha256 of the bytes that were sent."""

    id: str
    name: str
    title: str
    media_type: str
    language: str | None
    passages: int
    tokens: int
    content_hash: str
    updated: float
    metadata: MetadataOut
    access: list[str] = Field(description="Labels; a key needs one of them to see it. Empty: every key does.")


class DocumentsOut(BaseModel):
    """A page of documents; `next` is the `after` of the page behind it, null on the last."""

    data: list[DocumentOut]
    next: str | None = Field(description="An id.")


@router.get("/v1/collections", responses={200: {"model": CollectionsOut}, "default": {"model": ErrorOut}})
async def collections(request: Request) -> Response:
    """All collections."""
    here = enter(request, Scope.READ)
    found = await here.catalog(lambda it: it.collections(here.tenant))
    return _json(CollectionsOut(data=[_collection(each) for each in found]))


@router.get("/v1/collections/{collection}", responses={200: {"model": CollectionOut}, "default": {"model": ErrorOut}})
async def collection_(collection: CollectionName, request: Request) -> Response:
    """One collection."""
    here = enter(request, Scope.READ)
    found = await here.catalog(lambda it: it.collection(here.tenant, collection))
    return _json(_collection(found))


@router.delete(
    "/v1/collections/{collection}",
    responses={200: {"model": DeletedOut}, "default": {"model": ErrorOut}},
)
async def delete_collection(collection: CollectionName, request: Request) -> Response:
    """Forgets a collection with all its documents, and cancels its jobs."""
    here = enter(request, Scope.ADMIN)
    await here.catalog(lambda it: it.delete_collection(here.tenant, collection))
    await here.stages.look_again(here.tenant, collection)
    await here.stages.nudge.nudge()
    return _json(DeletedOut(name=collection))


@router.get(
    "/v1/collections/{collection}/documents", responses={200: {"model": DocumentsOut}, "default": {"model": ErrorOut}}
)
async def documents(
    collection: CollectionName,
    request: Request,
    after: Annotated[str | None, Query(description="An id; the page begins behind it.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The documents of a collection that the key may see, by id."""
    here = enter(request, Scope.READ)
    found = await here.catalog(
        # one more tells of a next page
        lambda it: it.documents(here.tenant, collection, after=after, limit=limit + 1, labels=here.labels),
    )
    page = found[:limit]
    following = page[-1].id if len(found) > limit else None
    return _json(DocumentsOut(data=[_document(each) for each in page], next=following))


@router.get(
    "/v1/collections/{collection}/documents/{document_id}",
    responses={200: {"model": DocumentOut}, "default": {"model": ErrorOut}},
)
async def document(collection: CollectionName, document_id: DocumentId, request: Request) -> Response:
    """One document."""
    here = enter(request, Scope.READ)
    found = await here.catalog(lambda it: it.document(here.tenant, collection, document_id, labels=here.labels))
    return _json(_document(found))


@router.delete(
    "/v1/collections/{collection}/documents/{document_id}",
    status_code=202,
    responses={202: {"model": JobOut}, "default": {"model": ErrorOut}},
)
async def delete_document(
    collection: CollectionName,
    document_id: DocumentId,
    request: Request,
    key: IdempotencyKey = None,
    webhook: WebhookUrl = None,
) -> Response:
    """Removes a document; it is gone from search when the job is done."""
    here = enter(request, Scope.INGEST)
    return await _removed(collection, [document_id], here, here.terms(key, webhook))


@router.delete(
    "/v1/collections/{collection}/documents",
    status_code=202,
    responses={202: {"model": JobOut}, "default": {"model": ErrorOut}},
)
async def delete_documents(
    collection: CollectionName,
    request: Request,
    ids: Annotated[list[str], Query(alias="id", min_length=1, max_length=1000, description="Repeat for each.")],
    key: IdempotencyKey = None,
    webhook: WebhookUrl = None,
) -> Response:
    """Removes several documents at once."""
    here = enter(request, Scope.INGEST)
    return await _removed(collection, ids, here, here.terms(key, webhook))


async def _removed(collection: str, ids: list[str], here: Inside, terms: Terms) -> Response:
    job = await here.catalog(lambda it: it.remove(here.tenant, collection, ids, terms=terms, labels=here.labels))
    await here.stages.nudge.nudge()
    return accepted(job, here.labels)


def _collection(collection: Collection) -> CollectionOut:
    return CollectionOut(
        name=collection.name,
        documents=collection.documents,
        passages=collection.passages,
        generation=collection.generation,
        created=collection.created,
        segments=collection.segments,
        dead_share=dead_share(collection.passages, collection.written),
        size_bytes=collection.size,
    )


def _document(document: DocumentInfo) -> DocumentOut:
    return DocumentOut(
        id=document.id,
        name=document.name,
        title=document.title,
        media_type=document.media_type,
        language=document.language,
        passages=document.passages,
        tokens=document.tokens,
        content_hash=document.content_hash,
        updated=document.updated,
        metadata=dict(document.metadata),
        access=list(document.access),
    )


def _json(body: BaseModel) -> Response:
    return Response(body.model_dump_json().encode(), media_type="application/json")
