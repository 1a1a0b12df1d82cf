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
    """One document of a job, the `ordinal`th that was sent, from 1.

    `reason` says why it failed, or why nothing was done, in a sentence for its author; empty otherwise. `passages` were
    cut from it; `warnings` say what of it could not be read.
    """

    name: str
    document_id: str
    state: ItemState
    reason: str = ""
    ordinal: int = 0
    passages: int = 0
    warnings: tuple[str, ...] = ()
    access: tuple[str, ...] = ()


class WebhookState(StrEnum):
    """Whether those who wanted to know that a job has ended were told. Not `waiting` is final."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the end of a job is told, and how that goes: `attempts` so far, when the next one is `due`, and why.

    `due` is None before the job has ended and after the last attempt; `reason` is of the last attempt that failed.
    """

    url: str
    state: WebhookState
    attempts: int = 0
    due: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """What somebody asks of a job beside its documents.

    The same `key` again, with the same request, is the same job, and no second one. `webhook` is a URL that is told of
    the end.
    """

    key: str | None = None
    webhook: str | None = None


NO_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class PassageCounts:
    """How far a job's passages are; each step counts those that are further, too."""

    chunked: int = 0
    encoded: int = 0
    published: int = 0


@dataclass(frozen=True, slots=True)
class Rate:
    """Documents and passages a second."""

    documents: float
    passages: float


@dataclass(frozen=True, slots=True)
class Job:
    """A promise: what was accepted will be done. Times are seconds since the epoch.

    `counts` has every state that at least one document is in; `failed` lists at most 100 of the failed ones, of which
    `retryable` can be tried again without being sent again. `generation` is the first generation in which everything of
    this job is searchable. While it runs `rate` is of the last half minute, and `time_left` (seconds) follows from it;
    both are None as long as nothing can be said. Afterwards `rate` is that of the whole job.
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
    passages: PassageCounts = PassageCounts()
    rate: Rate | None = None
    time_left: float | None = None
    retryable: int = 0
    webhook: Webhook | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A document that somebody has and might send, told by the hex sha256 of its bytes."""

    name: str
    content_hash: str
    metadata: Metadata = field(default_factory=dict[str, Scalar | tuple[Scalar, ...]])
    access: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """An offered document that is there just so: published, or (with its `job`) on its way."""

    name: str
    job: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collection has a text already: in which document, as which of its passages (from 0)."""

    document_id: str
    name: str
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class Repeated:
    """What a collection has already, by hash: whole documents by that of their bytes, passages by their own.

    Of each the first two documents that have it: of these at least one is not the one that somebody asks for.
    """

    documents: Mapping[str, tuple[Place, ...]] = field(default_factory=dict[str, tuple[Place, ...]])
    passages: Mapping[str, tuple[Place, ...]] = field(default_factory=dict[str, tuple[Place, ...]])


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of documents of one tenant, and the generation that serves it (None before the first).

    `written` counts the passages in that generation's segments, dead ones included; `size` is in bytes, and None for a
    generation of the first release.
    """

    tenant: str
    name: str
    documents: int
    passages: int
    generation: int | None
    created: float
    segments: int = 0
    written: int = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """A generation as the catalog keeps it; times are seconds since the epoch, `size` bytes, None where not known.

    `written` counts the passages in its segments, dead ones included. `restores` is the number of the generation that
    it shows again, after a roll back; `withdrawn` was rolled back behind. `readers` are processes that have it open.
    """

    number: int
    current: bool
    documents: int
    passages: int
    written: int
    segments: int
    size: int | None
    published: float
    superseded: float | None
    pinned: bool
    withdrawn: bool
    restores: int | None
    readers: int


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document as it stands in the catalog. `content_hash` is the hex sha256 of the bytes that were sent.

    `access` are the labels of which a caller needs one to see it; without any everybody of the tenant does.
    """

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
    access: tuple[str, ...] = ()
