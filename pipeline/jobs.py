"""What the catalog tells about collections, documents and the jobs that bring documents in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.passages import Metadata, Scalar


class JobState(StrEnum):
    """How far a job is. DONE also when some documents failed: each failure is told apart in the job."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ItemState(StrEnum):
    """How far one document of a job is; the last four are final."""

    ACCEPTED = "accepted"
    PARSED = "parsed"
    ENCODED = "encoded"
    PUBLISHED = "published"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobItem:
    """One document of a job. `reason` says why it failed, in a sentence for its author; empty otherwise."""

    name: str
    document_id: str
    state: ItemState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A promise: what was accepted will be done. Times are seconds since the epoch.

    `counts` has every state that at least one document is in; `failed` lists at most 100 of the failed ones.
    `generation` is the first generation in which everything of this job is searchable.
    """

    id: str
    tenant: str
    collection: str
    kind: str
    state: JobState
    total: int
    accepted: float
    finished: float | None = None
    counts: Mapping[ItemState, int] = field(default_factory=dict[ItemState, int])
    failed: tuple[JobItem, ...] = ()
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of documents of one tenant, and the generation that serves it (None before the first)."""

    tenant: str
    name: str
    documents: int
    passages: int
    generation: int | None
    created: float


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document as it stands in the catalog. `content_hash` is the hex sha256 of the bytes that were sent."""

    id: str
    name: str
    title: str
    media_type: str
    language: str | None
    passages: int
    tokens: int
    content_hash: str
    updated: float
    metadata: Metadata = field(default_factory=dict[str, Scalar | tuple[Scalar, ...]])
