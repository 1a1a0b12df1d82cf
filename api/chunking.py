"""`/v1/collections/{collection}/chunking`: how a collection's documents are cut, and cutting them anew."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.job_shapes import JobOut, job_out
from api.service import enter
from api.wire import ErrorOut
from pipeline.chunking import Chosen, Chunking, Cut, chunking_of
from pipeline.errors import InvalidInput
from pipeline.passages import Scope

router = APIRouter(tags=["collections"])

CollectionName = Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})]
EXAMPLES: dict[str, Any] = {
    "sentences that overlap": {"value": {"chunker": "sentences", "tokens": 200, "overlap": 40}},
    "the workers' default": {"value": {"chunker": None}},
}


class ChunkingIn(BaseModel):
    """A chunker and its sizes in tokens; null goes back to what the workers' settings say."""

    model_config = ConfigDict(extra="forbid")

    chunker: str | None = Field(description="tokens, sentences, headings or whole.")
    tokens: int | None = Field(default=None, description="The longest passage; 200 where nothing is said.")
    overlap: int | None = Field(default=None, description="Tokens of it that repeat the one before, at most half.")
    minimum: int | None = Field(
        default=None, description="A section with fewer joins its neighbour; for sentences 32, for headings none."
    )


class ChunkingOut(BaseModel):
    """What was chosen, null for the workers' default; what the searched generation was made by; and the job, if any."""

    chunker: Cut | None
    tokens: int | None = None
    overlap: int | None = None
    minimum: int | None = None
    made_by: str = Field(description="Of the generation that is searched; several joined by + while they change.")
    job: JobOut | None = None


@router.get(
    "/v1/collections/{collection}/chunking", responses={200: {"model": ChunkingOut}, "default": {"model": ErrorOut}}
)
async def chunking(collection: CollectionName, request: Request) -> Response:
    """How a collection is cut."""
    here = enter(request, Scope.READ)
    found = await here.catalog(lambda it: it.chunking(here.tenant, collection))
    return _json(_out(found))


@router.put(
    "/v1/collections/{collection}/chunking",
    responses={
        200: {"model": ChunkingOut, "description": "It was the choice already."},
        202: {
            "model": ChunkingOut,
            "description": "Kept, and every document will be cut so.",
            "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}},
        },
        "default": {"model": ErrorOut},
    },
)
async def choose(
    collection: CollectionName, asked: Annotated[ChunkingIn, Body(openapi_examples=EXAMPLES)], request: Request
) -> Response:
    """Chooses how a collection is cut; one that is not there yet is made.

    What is published already is cut anew from its text as it was read, and searched as before until all of it is
    ready: then it takes over in one generation. Only texts that were never encoded before are encoded.
    """
    here = enter(request, Scope.INGEST)
    chosen = _chosen(asked)
    job = await here.catalog(lambda it: it.choose_chunking(here.tenant, collection, chosen))
    found = await here.catalog(lambda it: it.chunking(here.tenant, collection))
    if job is None:
        return _json(_out(found))
    await here.stages.nudge.nudge()
    told = _out(found).model_copy(update={"job": job_out(job)})
    return Response(told.model_dump_json().encode(), 202, {"Location": f"/v1/jobs/{job.id}"}, "application/json")


def _chosen(asked: ChunkingIn) -> Chunking | None:
    sizes = {"tokens": asked.tokens, "overlap": asked.overlap, "minimum": asked.minimum}
    if asked.chunker is not None:
        return chunking_of(asked.chunker, **sizes)
    field = next((name for name, value in sizes.items() if value is not None), None)
    if field is not None:
        raise InvalidInput(f"'{field}' says nothing without a chunker. Name one beside it.", field=field)
    return None


def _out(found: Chosen) -> ChunkingOut:
    chunking = found.chunking
    if chunking is None:
        return ChunkingOut(chunker=None, made_by=found.made_by)
    if chunking.chunker is Cut.WHOLE:
        return ChunkingOut(chunker=chunking.chunker, made_by=found.made_by)
    return ChunkingOut(
        chunker=chunking.chunker,
        tokens=chunking.tokens,
        overlap=chunking.overlap,
        minimum=None if chunking.chunker is Cut.TOKENS else chunking.minimum,
        made_by=found.made_by,
    )


def _json(body: BaseModel) -> Response:
    return Response(body.model_dump_json().encode(), media_type="application/json")
