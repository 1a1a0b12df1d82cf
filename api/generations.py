"""The generations of a collection: listed, verified, pinned, rolled back to, pruned, compacted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.service import Inside, enter
from api.wire import ErrorOut
from pipeline.clock import Budget, Stage
from pipeline.errors import Damaged
from pipeline.jobs import GenerationInfo
from pipeline.passages import Scope

router = APIRouter(tags=["generations"])

VERIFY_SECONDS = 600.0  # a million passages are some gigabytes, each byte of which is read

CollectionName = Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})]
Number = Annotated[int, Path(ge=1, openapi_examples={"a generation": {"value": 7}})]
FAILED: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorOut}}


class GenerationOut(BaseModel):
    """One that is kept. Times are seconds since the epoch, null in `superseded` while it serves."""

    number: int
    current: bool
    documents: int
    passages: int
    segments: int = Field(description="A base and its deltas.")
    dead_share: float = Field(description="Of the passages in its segments, those that are shown no more.")
    size_bytes: int | None = Field(description="Of its segments, which it shares with others; null if not known.")
    published: float
    superseded: float | None
    pinned: bool
    withdrawn: bool = Field(description="It was rolled back behind, and does not stand in for a damaged one.")
    restores: int | None = Field(description="The generation that it shows again, after a roll back.")
    readers: int = Field(description="Processes of the service that have it open.")


class GenerationsOut(BaseModel):
    """The newest first."""

    collection: str
    data: list[GenerationOut]


class RollBackIn(BaseModel):
    """Which generation is to serve again."""

    generation: int = Field(ge=1)


class VerifiedOut(BaseModel):
    """What came of reading every byte; `detail` says what is damaged."""

    generation: int
    ok: bool
    detail: str = ""


class PrunedOut(BaseModel):
    """Generations that are forgotten; workers free their space within a minute or two."""

    collection: str
    pruned: list[int]


@router.get("/v1/collections/{collection}/generations", responses={200: {"model": GenerationsOut}, **FAILED})
async def generations(collection: CollectionName, request: Request) -> Response:
    """Those that are kept."""
    here = enter(request, Scope.READ)
    found = await here.catalog(lambda _: here.stages.keeping.list(here.tenant, collection))
    return _json(GenerationsOut(collection=collection, data=[_generation(each) for each in found]))


@router.post(
    "/v1/collections/{collection}/generations/{number}/verify", responses={200: {"model": VerifiedOut}, **FAILED}
)
async def verify(collection: CollectionName, number: Number, request: Request) -> Response:
    """Reads every file of a generation and compares it with its checksum, whatever was read before.

    This instance then opens a damaged one no more. It takes seconds for a gigabyte, one generation at a time.
    """
    here = enter(request, Scope.ADMIN)
    ref = await here.catalog(lambda _: here.stages.keeping.ref(here.tenant, collection, number))
    clock = here.visit.clock(Budget(here.visit.elapsed() + VERIFY_SECONDS))
    try:
        async with clock.lap(Stage.ADMIT) as lap:
            await here.stages.verify(ref, lap)
    except Damaged as error:
        return _json(VerifiedOut(generation=number, ok=False, detail=str(error)))
    return _json(VerifiedOut(generation=number, ok=True))


@router.post(
    "/v1/collections/{collection}/generations/{number}/pin", responses={200: {"model": GenerationOut}, **FAILED}
)
async def pin(collection: CollectionName, number: Number, request: Request) -> Response:
    """Keeps a generation, and what its documents were, until it is unpinned."""
    return await _pinned(enter(request, Scope.ADMIN), collection, number, pinned=True)


@router.delete(
    "/v1/collections/{collection}/generations/{number}/pin", responses={200: {"model": GenerationOut}, **FAILED}
)
async def unpin(collection: CollectionName, number: Number, request: Request) -> Response:
    """Lets a generation go as all others do."""
    return await _pinned(enter(request, Scope.ADMIN), collection, number, pinned=False)


@router.post("/v1/collections/{collection}/rollback", responses={200: {"model": GenerationOut}, **FAILED})
async def roll_back(
    collection: CollectionName,
    request: Request,
    body: Annotated[RollBackIn, Body(openapi_examples={"to an earlier one": {"value": {"generation": 6}}})],
) -> Response:
    """Serves an earlier generation again, under a new number, with the documents as they stood then.

    It is searched when this answers. What was accepted and is not published yet is published on top of it; a refresh
    under way is cancelled.
    """
    here = enter(request, Scope.ADMIN)
    back = await here.catalog(lambda _: here.stages.keeping.roll_back(here.tenant, collection, body.generation))
    await here.stages.look_again(here.tenant, collection)
    await here.stages.nudge.nudge()
    return _json(_generation(back))


@router.post("/v1/collections/{collection}/prune", responses={200: {"model": PrunedOut}, **FAILED})
async def prune(collection: CollectionName, request: Request) -> Response:
    """Forgets at once what would be forgotten later: superseded generations that nobody reads.

    Kept are the current one, the one that would serve in its place, and pinned ones.
    """
    here = enter(request, Scope.ADMIN)
    dropped = await here.catalog(lambda _: here.stages.keeping.drop(here.tenant, collection))
    return _json(PrunedOut(collection=collection, pruned=list(dropped)))


@router.post(
    "/v1/collections/{collection}/compact", status_code=202, responses={202: {"model": GenerationOut}, **FAILED}
)
async def compact(collection: CollectionName, request: Request) -> Response:
    """Asks for a new base without anything dead in it, which workers make while the collection serves.

    Answers with the generation as it is now. It is done when a later one has a single segment and nothing dead.
    """
    here = enter(request, Scope.ADMIN)
    current = await here.catalog(lambda _: here.stages.keeping.compact(here.tenant, collection))
    await here.stages.nudge.nudge()
    return _json(_generation(current), 202)


async def _pinned(here: Inside, collection: str, number: int, *, pinned: bool) -> Response:
    found = await here.catalog(lambda _: here.stages.keeping.pin(here.tenant, collection, number, pinned=pinned))
    return _json(_generation(found))


def _generation(info: GenerationInfo) -> GenerationOut:
    return GenerationOut(
        number=info.number,
        current=info.current,
        documents=info.documents,
        passages=info.passages,
        segments=info.segments,
        dead_share=dead_share(info.passages, info.written),
        size_bytes=info.size,
        published=info.published,
        superseded=info.superseded,
        pinned=info.pinned,
        withdrawn=info.withdrawn,
        restores=info.restores,
        readers=info.readers,
    )


def dead_share(passages: int, written: int) -> float:
    """What part of the written passages is shown no more, to four digits."""
    return round(1 - passages / written, 4) if written else 0.0


def _json(body: BaseModel, status: int = 200) -> Response:
    return Response(body.model_dump_json().encode(), status, media_type="application/json")
