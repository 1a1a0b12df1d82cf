"""Jobs on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from pipeline.jobs import ItemState, Job, JobItem, JobState, Webhook, WebhookState

JobId = Annotated[str, Path(openapi_examples={"a job": {"value": "3f1c9a5e7b2d4c6f8a90"}})]
READ = (ItemState.PARSED, ItemState.ENCODED, ItemState.PUBLISHED)
ENCODED = (ItemState.ENCODED, ItemState.PUBLISHED)


class ItemOut(BaseModel):
    """One document of a job; `reason` says why it failed, `warnings` what of it could not be read."""

    name: str
    document_id: str
    state: ItemState
    reason: str = ""
    passages: int = 0
    warnings: list[str] = []


class DocumentCountsOut(BaseModel):
    """Documents that got so far, or further. A document is read and cut in one step, so two of these are equal."""

    parsed: int
    chunked: int
    encoded: int
    published: int


class PassageCountsOut(BaseModel):
    """Passages that got so far, or further."""

    chunked: int
    encoded: int
    published: int


class RateOut(BaseModel):
    """A second: of the last half minute while a job runs, afterwards of all of it."""

    documents: float
    passages: float


class WebhookOut(BaseModel):
    """Where the end of the job is told, and how that goes."""

    url: str
    state: WebhookState
    attempts: int
    due: float | None = Field(description="The next attempt, in seconds since the epoch.")
    reason: str = Field(description="Why the last attempt failed.")


class JobOut(BaseModel):
    """A promise and how far it is. Times are seconds since the epoch; `failed` lists at most 100."""

    id: str
    collection: str
    kind: str
    state: JobState
    total: int
    counts: dict[ItemState, int]
    documents: DocumentCountsOut
    passages: PassageCountsOut
    rate: RateOut | None
    time_left_ms: float | None = Field(description="Null as long as nothing can be said of it.")
    failed: list[ItemOut]
    retryable: int = Field(description="Failed documents that can be tried again without being sent again.")
    accepted: float
    finished: float | None
    generation: int | None
    webhook: WebhookOut | None


class JobsOut(BaseModel):
    """The latest jobs first."""

    data: list[JobOut]


class ItemsOut(BaseModel):
    """A page of a job's documents; `next` is the `after` of the page behind it, null on the last."""

    data: list[ItemOut]
    next: int | None


def job_out(job: Job, labels: frozenset[str] = frozenset()) -> JobOut:
    """A job on the wire. Of documents that a caller with these labels may not see it counts, and names none."""
    read, encoded = _count(job, READ), _count(job, ENCODED)
    published = _count(job, (ItemState.PUBLISHED,))
    passages = job.passages
    return JobOut(
        id=job.id,
        collection=job.collection,
        kind=job.kind,
        state=job.state,
        total=job.total,
        counts=dict(job.counts),
        documents=DocumentCountsOut(parsed=read, chunked=read, encoded=encoded, published=published),
        passages=PassageCountsOut(chunked=passages.chunked, encoded=passages.encoded, published=passages.published),
        rate=None if job.rate is None else RateOut(documents=job.rate.documents, passages=job.rate.passages),
        time_left_ms=None if job.time_left is None else round(job.time_left * 1000, 1),
        failed=items_out(job.failed, labels),
        retryable=job.retryable,
        accepted=job.accepted,
        finished=job.finished,
        generation=job.generation,
        webhook=None if job.webhook is None else _webhook(job.webhook),
    )


def items_out(items: Iterable[JobItem], labels: frozenset[str]) -> list[ItemOut]:
    """Its documents on the wire, those that one with these labels may see."""
    return [
        ItemOut(
            name=item.name,
            document_id=item.document_id,
            state=item.state,
            reason=item.reason,
            passages=item.passages,
            warnings=list(item.warnings),
        )
        for item in seen(items, labels)
    ]


def seen(items: Iterable[JobItem], labels: frozenset[str]) -> list[JobItem]:
    """Those of the documents that one with these labels may see."""
    return [item for item in items if not item.access or not labels.isdisjoint(item.access)]


def accepted(job: Job, labels: frozenset[str] = frozenset()) -> Response:
    """202: kept, and will be done."""
    body = job_out(job, labels).model_dump_json().encode()
    return Response(body, 202, {"Location": f"/v1/jobs/{job.id}"}, "application/json")


def _count(job: Job, states: tuple[ItemState, ...]) -> int:
    return sum(job.counts.get(state, 0) for state in states)


def _webhook(webhook: Webhook) -> WebhookOut:
    return WebhookOut(
        url=webhook.url,
        state=webhook.state,
        attempts=webhook.attempts,
        due=webhook.due,
        reason=webhook.reason,
    )
