"""What the HTTP door needs from what stands behind it: the opened stages, seen through small protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from starlette.requests import Request

from api.events import StreamOptions
from api.limits import Limits
from api.metrics import Metrics
from api.terms import TermsOptions
from api.visits import Visit, visit_of
from pipeline.answering import Answering
from pipeline.chunking import Chosen, Chunking
from pipeline.clock import Budget, Lap, Stage
from pipeline.errors import NotAllowed
from pipeline.explaining import Standing
from pipeline.health import Check
from pipeline.jobs import (
    NO_TERMS,
    Collection,
    DocumentInfo,
    GenerationInfo,
    ItemState,
    Job,
    JobItem,
    Known,
    Offer,
    Repeated,
    Terms,
)
from pipeline.lane import Lane
from pipeline.load import Foresees, Load
from pipeline.passages import Passage, Scope, Upload
from pipeline.ports import Explainer, GenerationRef, Generator, Nudge
from pipeline.previews import Previewer
from pipeline.profile import Profile

T = TypeVar("T")


class CatalogRecords(Protocol):
    """The queue and record of documents; every method blocks, and is therefore called through a lane."""

    def accept(
        self, tenant: str, collection: str, uploads: Sequence[Upload], *, kind: str = "add", terms: Terms = NO_TERMS
    ) -> Job: ...

    def job(self, tenant: str, job_id: str) -> Job: ...

    def jobs(self, tenant: str, collection: str | None = None, limit: int = 50) -> Sequence[Job]: ...

    def cancel(self, tenant: str, job_id: str) -> Job: ...

    def retry(self, tenant: str, job_id: str, *, terms: Terms = NO_TERMS) -> Job: ...

    def items(
        self, tenant: str, job_id: str, after: int = 0, limit: int = 500, state: ItemState | None = None
    ) -> Sequence[JobItem]: ...

    def unneeded(self, tenant: str, collection: str, offers: Sequence[Offer]) -> Sequence[Known]: ...

    def repeated(
        self,
        tenant: str,
        collection: str,
        content_hashes: Sequence[str],
        passage_hashes: Sequence[str],
        labels: frozenset[str] = frozenset(),
    ) -> Repeated: ...

    def collections(self, tenant: str) -> Sequence[Collection]: ...

    def collection(self, tenant: str, name: str) -> Collection: ...

    def delete_collection(self, tenant: str, name: str) -> None: ...

    def documents(
        self, tenant: str, collection: str, *, after: str | None = None, limit: int = 100, labels: frozenset[str]
    ) -> Sequence[DocumentInfo]: ...

    def document(self, tenant: str, collection: str, document_id: str, *, labels: frozenset[str]) -> DocumentInfo: ...

    def remove(
        self,
        tenant: str,
        collection: str,
        document_ids: Sequence[str],
        *,
        terms: Terms = NO_TERMS,
        labels: frozenset[str],
    ) -> Job: ...

    def passages(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        *,
        after: int = -1,
        limit: int = 100,
        labels: frozenset[str] | None,
    ) -> Sequence[Passage]: ...

    def standing(self, tenant: str, collection: str, document: str, *, labels: frozenset[str] | None) -> Standing: ...

    def chunking(self, tenant: str, collection: str) -> Chosen: ...

    def choose_chunking(self, tenant: str, collection: str, chunking: Chunking | None) -> Job | None: ...

    def refresh(self, tenant: str, collection: str, *, terms: Terms = NO_TERMS) -> Job: ...


class GenerationRecords(Protocol):
    """A collection's generations; every method blocks, and is therefore called through the catalog's lane."""

    def list(self, tenant: str, collection: str) -> Sequence[GenerationInfo]: ...

    def ref(self, tenant: str, collection: str, number: int | None = None) -> GenerationRef: ...

    def pin(self, tenant: str, collection: str, number: int, *, pinned: bool = True) -> GenerationInfo: ...

    def roll_back(self, tenant: str, collection: str, number: int) -> GenerationInfo: ...

    def drop(self, tenant: str, collection: str) -> Sequence[int]: ...

    def compact(self, tenant: str, collection: str) -> GenerationInfo: ...


class Notices(Protocol):
    """Tells when a job has moved. What it yields does not matter: the job itself is read from the catalog."""

    def watch(self, job_id: str) -> AsyncGenerator[object, None]: ...


class Stages(Protocol):
    """The opened stages of one service, as the top-level assembly gives them."""

    @property
    def answering(self) -> Answering: ...

    @property
    def explainer(self) -> Explainer: ...

    @property
    def generator(self) -> Generator: ...

    @property
    def generator_name(self) -> str: ...

    @property
    def catalog(self) -> CatalogRecords: ...

    @property
    def catalog_lane(self) -> Lane: ...

    @property
    def keeping(self) -> GenerationRecords: ...

    @property
    def verify(self) -> Callable[[GenerationRef, Lap], Awaitable[None]]: ...

    @property
    def lines(self) -> Mapping[Stage, Foresees]: ...

    @property
    def reranks(self) -> bool: ...

    @property
    def nudge(self) -> Nudge: ...

    @property
    def notices(self) -> Notices: ...

    @property
    def look_again(self) -> Callable[[str, str], Awaitable[None]]: ...

    @property
    def profiles(self) -> Mapping[str, Profile]: ...

    @property
    def checks(self) -> Mapping[str, Check]: ...

    @property
    def facts(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Previews:
    """Who reads documents for dry runs, and the lane of one thread in which that is asked."""

    previewer: Previewer
    lane: Lane


@dataclass(frozen=True, slots=True)
class Behind:
    """What stands behind the door, the same for every request; `closing` is set when the service begins to end.

    Without `previews` there are no dry runs.
    """

    stages: Stages
    limits: Limits
    streams: StreamOptions
    metrics: Metrics
    load: Load
    closing: asyncio.Event
    terms: TermsOptions
    previews: Previews | None = None


@dataclass(frozen=True, slots=True)
class Inside:
    """What a route has at hand: its visit, and what stands behind the door."""

    visit: Visit
    stages: Stages
    limits: Limits
    behind: Behind

    @property
    def tenant(self) -> str:
        """Whose documents these are; nothing in a request can change it."""
        return self.visit.caller.tenant

    @property
    def labels(self) -> frozenset[str]:
        """What the caller's key opens beside documents without labels; nothing in a request can change it."""
        return self.visit.caller.labels

    def terms(self, key: str | None, webhook: str | None) -> Terms:
        """What the request asks of its job beside documents. Raises InvalidInput for a webhook that cannot be."""
        return self.behind.terms.terms(key, webhook)

    async def catalog(self, work: Callable[[CatalogRecords], T], *, seconds: float | None = None) -> T:
        """Runs one catalog call in its lane, as the lap `admit`. Raises Overloaded, OutOfTime and what it raises.

        A caller who leaves is not told of the result, and what was accepted stays accepted.
        """
        granted = self.limits.catalog_deadline if seconds is None else seconds
        clock = self.visit.clock(Budget(self.visit.elapsed() + granted))
        async with clock.lap(Stage.ADMIT) as lap:
            return await self.stages.catalog_lane.run(lap, lambda _: work(self.stages.catalog))


def enter(request: Request, *scopes: Scope) -> Inside:
    """Raises NotAllowed unless the caller's key has one of the scopes; without scopes everybody may come.

    (A function and not a dependency: FastAPI's solving of dependencies costs more than all else that the door does.)
    """
    behind: Behind = request.app.state.behind
    visit = visit_of(request)
    if scopes and visit.caller.scopes.isdisjoint(scopes):
        wanted = " or ".join(f"'{scope}'" for scope in scopes)
        raise NotAllowed(f"This needs a key with the scope {wanted}. Ask the service's operator for one.")
    return Inside(visit, behind.stages, behind.limits, behind)
