"""The ports: what one stage may ask of another, one verb each.

An implementation that would have to raise NotImplementedError means that a port is two ports. A policy (a cache, a
batcher) is another implementation of the same port, wrapped around the first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipeline.chunking import Chunking
from pipeline.clock import Clock
from pipeline.passages import (
    Candidates,
    Context,
    Document,
    Groups,
    Neighbours,
    Passage,
    Prompt,
    Query,
    Ranking,
    Sizes,
    Token,
    Upload,
    Vectors,
)

if TYPE_CHECKING:
    from pipeline.explaining import Evidence

# A request


class Shelf(Protocol):
    """An opened, immutable generation (or several side by side) as one request sees it.

    A key is a place on this shelf. Everything here is a look-up of what ingest computed; nothing is encoded. The
    methods compute without waiting, are safe to call from any thread, and raise KeyError for a key of another shelf.
    """

    @property
    def generation(self) -> str:
        """Names every generation searched, as `handbook@7` or `handbook@7+laws@3`."""
        ...

    @property
    def tokenizer(self) -> str:
        """The fingerprint of the tokenizer that made `token_ids`."""
        ...

    def passages(self, keys: Sequence[int]) -> tuple[Passage, ...]:
        """The passages, in the order of the keys."""
        ...

    def content_hashes(self, keys: Sequence[int]) -> tuple[str, ...]:
        """`Passage.content_hash` of each, without reading the rest of the passage."""
        ...

    def tokens(self, keys: Sequence[int]) -> tuple[int, ...]:
        """Token counts of the passages' text."""
        ...

    def token_ids(self, keys: Sequence[int]) -> tuple[memoryview, ...]:
        """Token ids of title and text, `[tokens] int32` each, without special tokens, not truncated."""
        ...

    def near_duplicates(self, keys: Sequence[int], similarity: float) -> tuple[int, ...]:
        """For each key the index of the first key that it repeats (its own index when it repeats none).

        Exact by content hash; near by stored signatures and vectors, from cosine `similarity` on.
        """
        ...

    def neighbours(self, keys: Sequence[int]) -> tuple[Neighbours, ...]:
        """The keys around each passage in its document, which has been cut by one chunker and lies together."""
        ...


class Retriever(Protocol):
    """Finds candidates. Answers as long as one leg has hits, and says what was given up."""

    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        """Raises OutOfTime or Overloaded only when no leg answered, NotFound for an unknown collection."""
        ...


class Reranker(Protocol):
    """Puts candidates in their final order, as far as its allowance carries; always returns a valid ranking."""

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking: ...


class Grouper(Protocol):
    """Tells which candidates say the same."""

    async def group(self, query: Query, candidates: Candidates, clock: Clock) -> Groups: ...


class Sizer(Protocol):
    """Tells how many tokens each candidate takes."""

    async def size(self, query: Query, candidates: Candidates, clock: Clock) -> Sizes: ...


class Packer(Protocol):
    """Chooses what reaches the prompt; computes, never waits."""

    def pack(self, query: Query, candidates: Candidates, ranking: Ranking, groups: Groups, sizes: Sizes) -> Context: ...


class Prompter(Protocol):
    """Lays out the prompt, the part that never changes first; computes, never waits."""

    def prompt(self, query: Query, context: Context) -> Prompt: ...


class Generator(Protocol):
    """Streams an answer. Closing the generator stops the work upstream at once."""

    def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        """Raises UpstreamFailed or Overloaded, before the first token or while streaming."""
        ...


class Explainer(Protocol):
    """Looks at all passages of one document on the shelf that a request was answered from."""

    async def explain(self, query: Query, candidates: Candidates, document_id: str, clock: Clock) -> Evidence:
        """Raises OutOfTime, or Overloaded where others are being explained already."""
        ...


class SecondLevel(Protocol):
    """Where instances of the service share what they computed, as bytes by key; a cache of theirs asks it last.

    Nobody depends on it: what it lost, or never got, is computed again.
    """

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """One value for each key, None for what it does not have. Raises OSError when it is away."""
        ...

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Takes values in to be written behind the caller's back; never waits, never raises, drops what is too much."""
        ...


# Ingest


class Parser(Protocol):
    """Reads one upload: format told by content, text cleaned, title, headings, pages and language found."""

    def parse(self, upload: Upload, document_id: str) -> Document:
        """Raises Unparsable or TooLarge with a reason that an author understands."""
        ...


class Chunker(Protocol):
    """Cuts a document into passages. `fingerprint` changes whenever its output could."""

    @property
    def fingerprint(self) -> str: ...

    def chunk(self, document: Document) -> tuple[Passage, ...]: ...


class Chunkers(Protocol):
    """Opens the chunker that a collection has chosen, or the default where it has chosen none."""

    def chunker(self, chosen: Chunking | None) -> Chunker: ...


class PassageEncoder(Protocol):
    """Encodes in bulk, for ingest. `fingerprint` names the model's files; equal fingerprints mean equal vectors."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """`[texts, dimensions] float32`, L2-normalised."""
        ...


@dataclass(frozen=True, slots=True)
class GenerationRef:
    """A published generation: `digest` is the sha256 of its manifest, in hex; `folder` is absolute."""

    collection: str
    number: int
    folder: Path
    digest: str


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A written segment. `kind` is "base" or "delta"; documents and passages count the dead ones too.

    `average_length` is that of a passage in terms, which its impacts were computed with; a delta has its base's.
    """

    name: str
    kind: str
    documents: int
    passages: int
    average_length: float


@dataclass(frozen=True, slots=True)
class Written:
    """A generation as it was written. `digest` is the sha256 of its manifest; documents and passages are live ones."""

    digest: str
    segments: tuple[SegmentRef, ...]
    documents: int
    passages: int


class GenerationWriter(Protocol):
    """Writes segments and the generations that name them, each complete and on the disk, or not at all.

    `home` is the folder of a collection: segments lie in `home/segments`, generations in `home/g<number>`. What is
    left over from a writer that was killed begins with a dot and belongs to nobody.
    """

    def write_segment(
        self, home: Path, passages: Iterable[Passage], vectors: Vectors, base: SegmentRef | None = None
    ) -> SegmentRef:
        """A base with its own average length, or a delta beside `base`. Equal content is written once.

        A document's passages follow one another; `vectors` has one row for each passage, in order. Raises InvalidInput
        when passages and vectors are not equally many.
        """
        ...

    def write_generation(
        self,
        home: Path,
        collection: str,
        number: int,
        *,
        embedder: str,
        chunker: str,
        previous: GenerationRef | None,
        keep: Sequence[str],
        gone: Collection[str],
        added: SegmentRef | None,
        gone_from_added: Collection[str] = (),
    ) -> Written:
        """The segments of `previous` that are named in `keep`, in which the documents `gone` die, and `added`, in which
        `gone_from_added` die: a base before the others, a delta after them.

        Costs time in proportion to the change. Raises Conflict when the number is taken, Damaged when the manifest or
        the tombstones of `previous` cannot be read, InvalidInput when a segment is not there, WrongFingerprint when
        `previous` was made with another embedder and one of its segments is kept.
        """
        ...

    def segments(self, ref: GenerationRef) -> tuple[SegmentRef, ...]:
        """What a generation consists of, its base first, from its manifest. None where nothing can be laid upon it, and
        the next one begins anew with a base: an earlier format, tokenizer or text analysis. Raises Damaged."""
        ...


class GenerationRemover(Protocol):
    """Removes what nobody reads any more from the disk; nobody else does."""

    def remove(self, folder: Path) -> None:
        """Takes a generation's or a segment's folder away: by name first, so that nobody finds half of it. One that is
        not there is no error; whoever has it open reads on."""
        ...


class CurrentGeneration(Protocol):
    """Knows which generation of a collection serves, from the catalog's row; None before the first publish."""

    def current(self, tenant: str, collection: str) -> GenerationRef | None:
        """Raises NotFound for an unknown collection."""
        ...


class EarlierGenerations(Protocol):
    """Knows what a collection was served from before: what may serve while the current generation is damaged."""

    def earlier(self, tenant: str, collection: str, before: int) -> tuple[GenerationRef, ...]:
        """Those with a lower number that are still kept, the newest first; none for an unknown collection."""
        ...


class Nudge(Protocol):
    """Tells the workers that something was accepted. Only a nudge: the catalog is the queue, and a sweep finds it."""

    async def nudge(self) -> None:
        """Never raises for a broker that is away; the sweep recovers within seconds."""
        ...
