"""What the HTTP door needs from what stands behind it: the opened stages, seen through small protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Protocol, TypeVar

from fastapi import Depends, Request

from api.limits import Limits
from api.visits import Visit
from pipeline.answering import Answering
from pipeline.clock import Stage
from pipeline.jobs import Collection, DocumentInfo, Job, JobItem
from pipeline.lane import Lane
from pipeline.passages import Upload
from pipeline.ports import Generator, Nudge
from pipeline.profile import Profile

T = TypeVar("T")


class CatalogRecords(Protocol):
    """The queue and record of documents; every method blocks, and is therefore called through a lane."""

    def accept(self, tenant: str, collection: str, uploads: Sequence[Upload], *, kind: str = "add") -> Job: ...

    def job(self, tenant: str, job_id: str) -> Job: ...

    def jobs(self, tenant: str, collection: str | None = None, limit: int = 50) -> Sequence[Job]: ...

    def cancel(self, tenant: str, job_id: str) -> Job: ...

    def items(self, tenant: str, job_id: str, after: int = 0, limit: int = 500) -> Sequence[JobItem]: ...

    def collections(self, tenant: str) -> Sequence[Collection]: ...

    def collection(self, tenant: str, name: str) -> Collection: ...

    def delete_collection(self, tenant: str, name: str) -> None: ...

    def documents(
        self, tenant: str, collection: str, *, after: str | None = None, limit: int = 100
    ) -> Sequence[DocumentInfo]: ...

    def document(self, tenant: str, collection: str, document_id: str) -> DocumentInfo: ...

    def remove(self, tenant: str, collection: str, document_ids: Sequence[str]) -> Job: ...


class Notices(Protocol):
    """Tells when a job has moved. What it yields does not matter: the job itself is read from the catalog."""

    def watch(self, job_id: str) -> AsyncGenerator[object, None]: ...


class Stages(Protocol):
    """The opened stages of one service, as the top-level assembly gives them."""

    @property
    def answering(self) -> Answering: ...

    @property
    def generator(self) -> Generator: ...

    @property
    def generator_name(self) -> str: ...

    @property
    def catalog(self) -> CatalogRecords: ...

    @property
    def catalog_lane(self) -> Lane: ...

    @property
    def nudge(self) -> Nudge: ...

    @property
    def notices(self) -> Notices: ...

    @property
    def profiles(self) -> Mapping[str, Profile]: ...

    @property
    def checks(self) -> Mapping[str, Callable[[], Awaitable[str]]]: ...

    @property
    def facts(self) -> Mapping[str, str]: ...


async def stages_of(request: Request) -> Stages:
    """The stages that this app was created with."""
    stages: Stages = request.app.state.stages
    return stages


async def limits_of(request: Request) -> Limits:
    """The limits that this app was created with."""
    limits: Limits = request.app.state.options.limits
    return limits


Behind = Annotated[Stages, Depends(stages_of)]
Limited = Annotated[Limits, Depends(limits_of)]


async def ask_catalog(stages: Stages, visit: Visit, seconds: float, work: Callable[[CatalogRecords], T]) -> T:
    """Runs one catalog call in its lane, as the lap `admit`. Raises Overloaded, OutOfTime and what the catalog raises.

    A caller who leaves is not told of the result, and what was accepted stays accepted.
    """
    clock = visit.clock(visit.elapsed() + seconds)
    async with clock.lap(Stage.ADMIT) as lap:
        return await stages.catalog_lane.run(lap, lambda _: work(stages.catalog))
