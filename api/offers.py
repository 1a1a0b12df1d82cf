"""`POST /v1/collections/{collection}/documents/known`: which documents need not be sent, told by their hashes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.bodies import body_of
from api.multipart import frozen
from api.service import enter
from api.wire import ErrorOut
from pipeline.jobs import Offer
from pipeline.passages import Scalar, Scope

router = APIRouter(tags=["documents"])


class OfferIn(BaseModel):
    """A document that could be sent: its name, and the hex sha256 of its bytes."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=1024)
    content_hash: str = Field(pattern="^[0-9a-f]{64}$")


class OffersIn(BaseModel):
    """Documents that could be sent, with the metadata and the labels that all of them would be sent with."""

    model_config = ConfigDict(extra="forbid")

    documents: list[OfferIn] = Field(min_length=1, max_length=1000)
    metadata: dict[str, Scalar | list[Scalar]] = {}
    access: list[str] = []


class KnownOut(BaseModel):
    """A document that would change nothing; `job` is the one that it is on its way in, null where it is published."""

    name: str
    job: str | None


class KnownsOut(BaseModel):
    """Those of the documents that need not be sent, in no particular order."""

    data: list[KnownOut]


HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
EXAMPLE = {"documents": [{"name": "leave.md", "content_hash": HASH}]}
REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/OffersIn"}, "example": EXAMPLE},
        },
    }
}


@router.post(
    "/v1/collections/{collection}/documents/known",
    responses={200: {"model": KnownsOut}, "default": {"model": ErrorOut}},
    openapi_extra=REQUEST_BODY,
)
async def known(
    collection: Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})], request: Request
) -> Response:
    """Tells which documents are there just so already, or on their way: what was interrupted goes on from there.

    A collection that is not there yet knows none. What has failed is not known: sent again, it is tried again.
    """
    here = enter(request, Scope.INGEST)
    asked = await body_of(request, OffersIn)
    metadata, access = frozen(asked.metadata), tuple(asked.access)
    offers = [Offer(each.name, each.content_hash, metadata, access) for each in asked.documents]
    found = await here.catalog(lambda it: it.unneeded(here.tenant, collection, offers))
    body = KnownsOut(data=[KnownOut(name=each.name, job=each.job) for each in found])
    return Response(body.model_dump_json().encode(), media_type="application/json")
