"""Jobs: what was promised for documents, how far it is, live if wanted."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Send

from api.errors import problem
from api.events import ClientStalled, EventSender, Told
from api.job_shapes import ItemsOut, JobId, JobOut, JobsOut, accepted, items_out, job_out
from api.service import Inside, enter
from api.terms import IdempotencyKey, WebhookUrl
from api.wire import ErrorOut
from pipeline.errors import FleetfootError
from pipeline.jobs import ItemState, Job, JobState
from pipeline.passages import Scope

router = APIRouter(tags=["jobs"])

FINAL = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
LOOK_AGAIN = 2.0  # seconds after which a job is read even without a notice: notices are only a nudge
EVENTS_EXAMPLE = 'event: progress\ndata: {"id":"3f1c","state":"running","total":40,"counts":{"parsed":12}}\n\n'


@router.get(
    "/v1/jobs",
    responses={200: {"model": JobsOut}, "default": {"model": ErrorOut}},
)
async def jobs(
    request: Request,
    collection: Annotated[str | None, Query(examples=["handbook"])] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """The latest jobs, of one collection or of all."""
    here = enter(request, Scope.READ, Scope.INGEST)
    found = await here.catalog(lambda it: it.jobs(here.tenant, collection, limit=limit))
    return _json(JobsOut(data=[job_out(each, here.labels) for each in found]))


@router.get(
    "/v1/jobs/{job_id}",
    responses={200: {"model": JobOut}, "default": {"model": ErrorOut}},
)
async def job(job_id: JobId, request: Request) -> Response:
    """How far a job is. Of one that is done everything is searchable here, by whoever was told so."""
    here = enter(request, Scope.READ, Scope.INGEST)
    found = await here.catalog(lambda it: it.job(here.tenant, job_id))
    await _searchable(found, here)
    return _json(job_out(found, here.labels))


@router.get(
    "/v1/jobs/{job_id}/items",
    responses={200: {"model": ItemsOut}, "default": {"model": ErrorOut}},
)
async def items(
    job_id: JobId,
    request: Request,
    after: Annotated[int, Query(ge=0, examples=[0])] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    state: Annotated[ItemState | None, Query(examples=["failed"])] = None,
) -> Response:
    """The documents of a job, in the order in which they were sent; all, or those in one state."""
    here = enter(request, Scope.READ, Scope.INGEST)
    # One more than is shown tells whether there is a next page.
    found = await here.catalog(lambda it: it.items(here.tenant, job_id, after=after, limit=limit + 1, state=state))
    following = found[limit - 1].ordinal if len(found) > limit else None
    return _json(ItemsOut(data=items_out(found[:limit], here.labels), next=following))


@router.post(
    "/v1/jobs/{job_id}/cancel",
    responses={200: {"model": JobOut}, "default": {"model": ErrorOut}},
)
async def cancel(job_id: JobId, request: Request) -> Response:
    """Stops what is not published yet; what is published stays. A finished job is returned as it is."""
    here = enter(request, Scope.INGEST)
    found = await here.catalog(lambda it: it.cancel(here.tenant, job_id))
    await here.stages.nudge.nudge()
    return _json(job_out(found, here.labels))


@router.post(
    "/v1/jobs/{job_id}/retry",
    status_code=202,
    responses={202: {"model": JobOut, "description": "Kept, and will be done."}, "default": {"model": ErrorOut}},
)
async def retry(job_id: JobId, request: Request, key: IdempotencyKey = None, webhook: WebhookUrl = None) -> Response:
    """Makes a job of the documents that failed in this one, without their being sent again. Once: the same comes back.

    What was sent again or removed since is left as it is. What fails again belongs to the new job: retry that one.
    """
    here = enter(request, Scope.INGEST)
    terms = here.terms(key, webhook)
    made = await here.catalog(lambda it: it.retry(here.tenant, job_id, terms=terms))
    await here.stages.nudge.nudge()
    return accepted(made, here.labels)


@router.get(
    "/v1/jobs/{job_id}/events",
    responses={
        200: {"description": "Server-sent events.", "content": {"text/event-stream": {"example": EVENTS_EXAMPLE}}},
        "default": {"model": ErrorOut},
    },
)
async def events(job_id: JobId, request: Request) -> Response:
    """A job as it goes: an event `progress` whenever it has moved or goes at another rate, `done` at its end.

    By the time of `done` this service searches what the job has published.
    """
    here = enter(request, Scope.READ, Scope.INGEST)
    follow = _Follow(job_id, here)
    first = await follow.read()

    async def story(send: Send) -> None:
        await follow.tell(first, EventSender(send, here.visit, here.behind.streams))

    return Told(story)


class _Follow:
    """Reads the job again whenever it may have moved; the service's closing ends it early."""

    def __init__(self, job_id: str, here: Inside) -> None:
        self.job_id = job_id
        self.here = here
        self.visit = here.visit
        self.moved = asyncio.Event()

    async def read(self) -> Job:
        self.visit.clocks.clear()  # a long stream reads many times; only the last lap is worth reporting
        return await self.here.catalog(lambda it: it.job(self.here.tenant, self.job_id))

    async def tell(self, job: Job, sender: EventSender) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            with sender.pinging():
                await sender.start()
                await self._until_final(job, sender)
                await sender.end()
        except ClientStalled as error:
            self.visit.code = error.code
        except FleetfootError as error:
            told = problem(error)
            told.note(self.visit)
            await sender.failed(told)
        finally:
            listening.cancel()

    async def _until_final(self, job: Job, sender: EventSender) -> None:
        await self._show(job, sender)
        while job.state not in FINAL and not self.here.behind.closing.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await self.moved.wait()
            self.moved.clear()
            before, job = job, await self.read()
            if job != before:
                await self._show(job, sender)

    async def _show(self, job: Job, sender: EventSender) -> None:
        await _searchable(job, self.here)
        name = "done" if job.state in FINAL else "progress"
        await sender.event(job_out(job, self.here.labels).model_dump_json().encode(), name)

    async def _listen(self) -> None:
        """Without notices the job is still read every few seconds: progress comes later, and nothing is lost."""
        with suppress(FleetfootError):
            async with aclosing(self.here.stages.notices.watch(self.job_id)) as notices:
                async for _ in notices:
                    self.moved.set()


async def _searchable(job: Job, here: Inside) -> None:
    """Before a job is told to be final, what it published takes over: otherwise that would be half a second later."""
    if job.state in FINAL and job.generation is not None:
        await here.stages.look_again(job.tenant, job.collection)


def _json(body: BaseModel) -> Response:
    return Response(body.model_dump_json().encode(), media_type="application/json")
