"""A passage made of a piece of a document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

from pipeline.passages import Document, Passage


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a document's section: the section's number, from 0, and where in its text this `text` begins."""

    section: int
    start: int
    text: str
    heading: tuple[str, ...] = ()
    page: int | None = None


def passage_of(document: Document, ordinal: int, piece: Piece, tokens: int) -> Passage:
    """Everything of the document that a passage carries, and the hash of what is encoded.

    A heading path that begins with the document's title goes without it: the title stands beside it anyway.
    """
    heading = piece.heading
    passage = Passage(
        id=f"{document.id}:{ordinal}",
        document_id=document.id,
        ordinal=ordinal,
        text=piece.text,
        tokens=tokens,
        content_hash="",
        source=document.name,
        title=document.title,
        heading=heading[1:] if heading[:1] == (document.title,) else heading,
        page=piece.page,
        language=document.language,
        metadata=document.metadata,
        access=document.access,
        parent=f"{document.id}#{piece.section}",
        start=piece.start,
    )
    return replace(passage, content_hash=content_hash(passage.embedded_text()))


def content_hash(embedded_text: str) -> str:
    """Hex BLAKE2b-128: equal hashes are exact duplicates and share a vector."""
    return blake2b(embedded_text.encode("utf-8"), digest_size=16).hexdigest()
