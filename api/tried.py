"""What a dry run tells of each document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from api.wire import MetadataOut
from pipeline.errors import FleetfootError
from pipeline.jobs import Place, Repeated
from pipeline.passages import Passage, Upload
from pipeline.previews import Preview

TEXT_SHOWN = 2000  # characters
CHUNKS_SHOWN = 20
ALIKE = 0.8  # part of a document's tokens that another has, too, from which on the two are near-duplicates

Where = Literal["upload", "collection"]
Kind = Literal["same", "near"]


@dataclass(frozen=True, slots=True)
class Tried:
    """A document that was tried: what came of it, or what is wrong with it."""

    upload: Upload
    document_id: str
    content_hash: str
    preview: Preview | None = None
    error: FleetfootError | None = None


class RepeatOut(BaseModel):
    """The first passage that says the same: in the collection, or in a document before it in this upload."""

    where: Where
    name: str
    chunk: int
    similarity: float = Field(description="The shared part of their runs of three words; 1 where it is the same text.")


class ChunkOut(BaseModel):
    """A passage, as it would be searched and cited."""

    ordinal: int
    text: str
    tokens: int
    heading: list[str]
    page: int | None
    content_hash: str
    repeats: RepeatOut | None


class DuplicateOut(BaseModel):
    """Another document with the same bytes (`same`), or with most of the text, too (`near`)."""

    where: Where
    kind: Kind
    name: str
    share: float = Field(description="The part of this one's tokens that the other has, too.")


class TriedErrorOut(BaseModel):
    """Why it would fail, for its author."""

    message: str
    code: str


class TriedOut(BaseModel):
    """A document as it would be. `unchanged` tells that sending it would change nothing.

    That, and the document's id, are null where no collection is named.
    """

    name: str
    document_id: str | None
    content_hash: str
    bytes: int
    error: TriedErrorOut | None
    media_type: str | None = None
    title: str = ""
    language: str | None = None
    metadata: MetadataOut = {}
    warnings: list[str] = []
    characters: int = 0
    tokens: int = 0
    text: str = Field(default="", description="The beginning, or with `full` all of it.")
    chunks_total: int = 0
    chunks: list[ChunkOut] = Field(default=[], description="The first ones, or with `full` all of them.")
    duplicates: list[DuplicateOut] = []
    unchanged: bool | None = None


class ParsedOut(BaseModel):
    """The documents, in the order in which they were sent."""

    documents: list[TriedOut]


def told_of(tried: Sequence[Tried], there: Repeated, unchanged: frozenset[str] | None, *, full: bool) -> ParsedOut:
    """`there` is what the collection has already; `unchanged` are names of what would change nothing there."""
    tellings = (_Telling(tried, place, there, unchanged) for place in range(len(tried)))
    return ParsedOut(documents=[each.told(full=full) for each in tellings])


class _Telling:
    """One document beside the others of its upload."""

    def __init__(self, tried: Sequence[Tried], place: int, there: Repeated, unchanged: frozenset[str] | None) -> None:
        self._tried = tried
        self._place = place
        self._mine = tried[place]
        self._there = there
        self._unchanged = unchanged

    def told(self, *, full: bool) -> TriedOut:
        mine, preview = self._mine, self._mine.preview
        out = TriedOut(
            name=mine.upload.name,
            document_id=None if self._unchanged is None else mine.document_id,
            content_hash=mine.content_hash,
            bytes=len(mine.upload.content),
            error=None if mine.error is None else TriedErrorOut(message=str(mine.error), code=mine.error.code),
            duplicates=list(self._same()),
            unchanged=None if self._unchanged is None else mine.upload.name in self._unchanged,
        )
        if preview is None:
            return out
        document, passages = preview.document, preview.passages
        text = "\n\n".join(block.text for block in document.blocks)
        repeats = [self._repeat(passage, preview) for passage in passages]
        shown = len(passages) if full else CHUNKS_SHOWN
        return out.model_copy(
            update={
                "media_type": document.media_type,
                "title": document.title,
                "language": document.language,
                "metadata": dict(document.metadata),
                "warnings": list(document.warnings),
                "characters": len(text),
                "tokens": sum(passage.tokens for passage in passages),
                "text": text if full else text[:TEXT_SHOWN],
                "chunks_total": len(passages),
                "chunks": [_chunk(*each) for each in zip(passages[:shown], repeats, strict=False)],
                "duplicates": out.duplicates or list(_near(mine.upload.name, passages, repeats)),
            }
        )

    def _same(self) -> Iterable[DuplicateOut]:
        """Documents with the very same bytes: one in the collection under another name, and the first in the upload."""
        found = self._elsewhere(self._there.documents.get(self._mine.content_hash, ()))
        if found is not None:
            yield DuplicateOut(where="collection", kind="same", name=found.name, share=1.0)
        for other in self._tried[: self._place]:
            if other.content_hash == self._mine.content_hash:
                yield DuplicateOut(where="upload", kind="same", name=other.upload.name, share=1.0)
                return

    def _repeat(self, passage: Passage, preview: Preview) -> RepeatOut | None:
        """The collection first: what is there was there before. A document does not repeat what it replaces."""
        found = self._elsewhere(self._there.passages.get(passage.content_hash, ()))
        if found is not None:
            return RepeatOut(where="collection", name=found.name, chunk=found.ordinal, similarity=1.0)
        echo = preview.echoes.get(passage.ordinal)
        if echo is None:
            return None
        other = self._tried[echo.document]
        return RepeatOut(where="upload", name=other.upload.name, chunk=echo.ordinal, similarity=echo.similarity)

    def _elsewhere(self, places: Sequence[Place]) -> Place | None:
        return next((place for place in places if place.document_id != self._mine.document_id), None)


def _near(name: str, passages: Sequence[Passage], repeats: Sequence[RepeatOut | None]) -> Iterable[DuplicateOut]:
    """Other documents that have most of this one's text, by tokens, the most alike first."""
    tokens = sum(passage.tokens for passage in passages)
    shared: Counter[tuple[Where, str]] = Counter()
    for passage, repeat in zip(passages, repeats, strict=True):
        if repeat is not None and (repeat.where, repeat.name) != ("upload", name):
            shared[repeat.where, repeat.name] += passage.tokens
    for (where, other), count in shared.most_common():
        if count >= ALIKE * tokens:
            yield DuplicateOut(where=where, kind="near", name=other, share=round(count / tokens, 3))


def _chunk(passage: Passage, repeats: RepeatOut | None) -> ChunkOut:
    return ChunkOut(
        ordinal=passage.ordinal,
        text=passage.text,
        tokens=passage.tokens,
        heading=list(passage.heading),
        page=passage.page,
        content_hash=passage.content_hash,
        repeats=repeats,
    )
