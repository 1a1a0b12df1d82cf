"""A passage made of a piece of a document."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from pipeline.passages import Document, Passage


def passage_of(
    document: Document, ordinal: int, text: str, tokens: int, heading: tuple[str, ...], page: int | None
) -> Passage:
    """Everything of the document that a passage carries, and the hash of what is encoded.

    A heading path that begins with the document's title goes without it: the title stands beside it anyway.
    """
    passage = Passage(
        id=f"{document.id}:{ordinal}",
        document_id=document.id,
        ordinal=ordinal,
        text=text,
        tokens=tokens,
        content_hash="",
        source=document.name,
        title=document.title,
        heading=heading[1:] if heading[:1] == (document.title,) else heading,
        page=page,
        language=document.language,
        metadata=document.metadata,
        access=document.access,
    )
    return replace(passage, content_hash=content_hash(passage.embedded_text()))


def content_hash(embedded_text: str) -> str:
    """Hex BLAKE2b-128: equal hashes are exact duplicates and share a vector."""
    return blake2b(embedded_text.encode("utf-8"), digest_size=16).hexdigest()
