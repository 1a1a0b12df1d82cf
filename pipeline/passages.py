"""The words that flow.

    Document -> Passage                                                     (ingest)
    Query -> Candidates -> Ranking -> Context -> Prompt -> tokens           (a request)

Plain frozen values. Two meanings are two types even where their fields agree, so that a type checker refuses to pack
what was never ranked. Durations are float seconds; milliseconds exist only on the wire. (The file is longer than a
module should be, so that all of the words are read in one place.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.clock import Stage
    from pipeline.filters import Filter
    from pipeline.ports import Shelf
    from pipeline.profile import Profile

Scalar = str | int | float | bool
Metadata = Mapping[str, Scalar | tuple[Scalar, ...]]


class Scope(StrEnum):
    """What a key allows."""

    READ = "read"
    INGEST = "ingest"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: it travels with every query, and nothing in a request's body can change it but to step back.

    `quota` is requests per minute, None for no limit. A lower `priority` is served first, as in vLLM; from 1 on it is
    batch traffic. A request may take a higher number for itself, never a lower one.
    """

    tenant: str = "default"
    scopes: frozenset[Scope] = frozenset(Scope)
    labels: frozenset[str] = frozenset()
    quota: int | None = None
    priority: int = 0


# Ingest


@dataclass(frozen=True, slots=True)
class Upload:
    """One file or ready-made text as it was accepted, before anybody has looked inside.

    `name` is the caller's own name for it (a path, a URL) and identifies the document within its collection: the same
    name again replaces it. `media_type` is as declared, possibly wrong. `access` are the labels of which a caller's key
    must carry one to see it; without any everybody of the tenant does. `options` say how it is to be read, by names
    such as `csv.template`. `origin` names the folder that it is kept in step with, if there is one.
    """

    name: str
    content: bytes
    media_type: str | None = None
    metadata: Metadata = field(default_factory=dict[str, Scalar | tuple[Scalar, ...]])
    access: tuple[str, ...] = ()
    options: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of text under one heading path, on one page where the format has pages (1-based)."""

    text: str
    heading: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed and cleaned document. `language` is an ISO 639-1 code, or None where it could not be told.

    `access` is as in its upload. `warnings` say what could not be read of it, in sentences for its author.
    """

    id: str
    name: str
    title: str
    blocks: tuple[Block, ...]
    media_type: str
    language: str | None = None
    metadata: Metadata = field(default_factory=dict[str, Scalar | tuple[Scalar, ...]])
    access: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document: the unit that is searched, ranked, packed and cited.

    `id` is `{document_id}:{ordinal}`. `tokens` counts `text` in the embedder's tokenizer, without special tokens.
    `content_hash` is the hex BLAKE2b-128 of `embedded_text()`: equal hashes are exact duplicates and share a vector.
    `access` is its document's: the labels of which a caller needs one to find it; without any everybody may.
    `parent` names the section that it was cut from, as `{document_id}#{number}`, in whose text its own begins `start`
    characters from the beginning; empty where that is not known.
    """

    id: str
    document_id: str
    ordinal: int
    text: str
    tokens: int
    content_hash: str
    source: str
    title: str = ""
    heading: tuple[str, ...] = ()
    page: int | None = None
    language: str | None = None
    metadata: Metadata = field(default_factory=dict[str, Scalar | tuple[Scalar, ...]])
    access: tuple[str, ...] = ()
    parent: str = ""
    start: int = 0

    def embedded_text(self) -> str:
        """What is encoded: title, heading path and text, a line each; what the text begins with is not repeated."""
        text = self.text
        path = " > ".join(part for part in self.heading if part != self.title)
        for line in (path, self.title):
            if line and not f"{text}\n".startswith(f"{line}\n"):
                text = f"{line}\n{text}"
        return text


@dataclass(frozen=True, slots=True)
class Vectors:
    """A matrix crossing a border in bulk: `shape` is (rows, dimensions), `data` row-major in `dtype` ("float32")."""

    shape: tuple[int, int]
    dtype: str
    data: memoryview


# A request


@dataclass(frozen=True, slots=True)
class Degraded:
    """Something was given up on purpose: where, why (a stable word), and how far it got.

    Reasons in use: out_of_time, overloaded, load, failed, no_terms, off, not_configured, budget,
    earlier_generation, unpublished.
    """

    stage: Stage
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation as the client sent it; `extra` holds fields that only the upstream understands."""

    role: str
    content: str
    extra: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Aside:
    """Text that joins both search legs beside the query, at a weight below 1: earlier turns of a conversation."""

    text: str
    weight: float


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, by whom, where, and how hard to try.

    `conversation` is what the generator is given, ending with the user's last message; empty for retrieval alone.
    Nothing outside `filter` is found, nor what the caller's labels do not open.
    """

    text: str
    caller: Caller
    collections: tuple[str, ...]
    profile: Profile
    asides: tuple[Aside, ...] = ()
    conversation: tuple[Turn, ...] = ()
    sampling: Mapping[str, object] = field(default_factory=dict[str, object])
    request_id: str = ""
    filter: Filter | None = None


class Leg(StrEnum):
    """The two ways to find a passage."""

    LEXICAL = "lexical"
    DENSE = "dense"


@dataclass(frozen=True, slots=True)
class Hit:
    """Where one leg placed a passage: `rank` from 1, `score` on the leg's own scale (BM25, inner product)."""

    leg: Leg
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that at least one leg found. `key` is its place on the shelf it was found on, nothing else."""

    key: int
    score: float
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the legs found, fused, best first. The shelf is the generation that the whole request stays on."""

    items: tuple[Candidate, ...]
    shelf: Shelf
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its final order. `rerank_score` is None where the reranker never saw it."""

    candidate: Candidate
    score: float
    rerank_score: float | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates in the order in which they deserve a place in the context, best first; scores strictly decrease."""

    items: tuple[Ranked, ...]
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class Groups:
    """Near-duplicates: each key's group. Keys of one group say the same; a key that is missing stands alone."""

    of: Mapping[int, int]
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many tokens each key's passage takes, counted at ingest."""

    tokens: Mapping[int, int]
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The keys of the passages right before and right behind one in its document, None at its beginning and end."""

    previous: int | None = None
    next: int | None = None


@dataclass(frozen=True, slots=True)
class Cited:
    """A numbered source in the context: one passage, or neighbours of one document joined into `text`.

    `previous` and `next` are the ids of the passages around all of it, empty at the document's beginning and end.
    """

    number: int
    ranked: Ranked
    passages: tuple[Passage, ...]
    text: str
    tokens: int
    previous: str = ""
    next: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A ranked passage that did not reach the context, and why: duplicate, budget, or top_k."""

    key: int
    reason: str
    instead: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What the answer may rest on, best first, within the token budget; `degraded` is everything given up so far."""

    items: tuple[Cited, ...]
    tokens: int
    dropped: tuple[Dropped, ...] = ()
    generation: str = ""
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the generator is given. `sampling` holds OpenAI fields (temperature, tools, stop, …), passed untouched.

    `asides` are the earlier turns that were searched with the question; `messages` holds them too, among all others.
    """

    messages: tuple[Turn, ...]
    context: Context
    question: str
    model: str = ""
    sampling: Mapping[str, object] = field(default_factory=dict[str, object])
    request_id: str = ""
    priority: int = 0
    asides: tuple[Aside, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What the upstream counted, in tokens; `cached` is the part of the prompt it had already computed, if it says."""

    prompt: int
    completion: int
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """One chunk of a stream. A chunk may carry several model tokens, so chunks are never counted as tokens.

    `delta` is the upstream's own delta object (content, reasoning, tool calls) for choice `index`, without the role;
    `text` is its content, empty for tool calls. The last chunk carries `finish_reason`; `usage` may come by itself.
    `raw` is the text as the JSON string that it came as, where there is nothing else in the chunk. `more` promises that
    the next token is here already, so that whoever passes this one on may wait for it and send both at once.
    """

    text: str = ""
    delta: Mapping[str, object] = field(default_factory=dict[str, object])
    index: int = 0
    finish_reason: str | None = None
    usage: Usage | None = None
    logprobs: Mapping[str, object] | None = None
    raw: bytes = field(default=b"", compare=False, repr=False)
    more: bool = field(default=False, compare=False, repr=False)
