"""`POST /v1/collections/{collection}/refresh`: makes a collection anew from what the catalog has of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api.job_shapes import JobOut, accepted
from api.service import enter
from api.terms import IdempotencyKey, WebhookUrl
from api.wire import ErrorOut
from pipeline.passages import Scope

router = APIRouter(tags=["collections"])


@router.post(
    "/v1/collections/{collection}/refresh",
    status_code=202,
    responses={202: {"model": JobOut}, "default": {"model": ErrorOut}},
)
async def refresh(
    collection: Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})],
    request: Request,
    key: IdempotencyKey = None,
    webhook: WebhookUrl = None,
) -> Response:
    """Publishes a new generation from the catalog: after a change of chunker or embedder, or when one is damaged.

    Every document is cut anew from its text as it was read, where the chunker has changed; the others end `unchanged`.
    The job is done when the new generation can be searched. Nothing has to be sent again.
    """
    here = enter(request, Scope.INGEST)
    terms = here.terms(key, webhook)
    job = await here.catalog(lambda it: it.refresh(here.tenant, collection, terms=terms))
    await here.stages.nudge.nudge()
    return accepted(job, here.labels)
