"""What a document would become if it were sent: read, cut, and compared, with nothing kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.chunking import Chunking
from pipeline.passages import Document, Passage, Upload


@dataclass(frozen=True, slots=True)
class Echo:
    """An earlier passage that says the same: the `ordinal`th (from 0) of the `document`th in the same request.

    `similarity` is the part of their runs of three words that the two share; 1 where the text is the same.
    """

    document: int
    ordinal: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Preview:
    """A document as it was read, its passages, and by their ordinals what those repeat."""

    document: Document
    passages: tuple[Passage, ...]
    echoes: Mapping[int, Echo] = field(default_factory=dict[int, Echo])


class Previewer(Protocol):
    """Reads and cuts as workers do; one request at a time."""

    def preview(self, upload: Upload, document_id: str, chosen: Chunking | None, place: int) -> Preview:
        """The upload at `place` of a request; at 0 another request begins, and what was read before is forgotten.

        Raises Unparsable or TooLarge, as a worker would tell it of the document.
        """
        ...
