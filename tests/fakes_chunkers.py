"""Chunkers that a test can tell apart: by lines where a collection has chosen nothing, else by words."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from pipeline.chunking import Chunking
from pipeline.passages import Block, Document, Passage
from pipeline.ports import Chunker
from tests.fakes_ingest import LineChunker


class WordChunker(LineChunker):
    """A passage per word; all of a document are of one section, in whose text the words stand a blank apart."""

    def __init__(self, fingerprint: str = "words-1") -> None:
        super().__init__(fingerprint)

    def chunk(self, document: Document) -> tuple[Passage, ...]:
        words = " ".join(block.text for block in document.blocks).split()
        made = super().chunk(replace(document, blocks=tuple(Block(word) for word in words)))
        starts = accumulate((len(word) + 1 for word in words), initial=0)
        return tuple(
            replace(passage, parent=f"{document.id}#0", start=start)
            for passage, start in zip(made, starts, strict=False)
        )


class ChunkersByChoice:
    """Lines where nothing was chosen, else words; a chunker of its own for each choice."""

    def chunker(self, chosen: Chunking | None) -> Chunker:
        return LineChunker() if chosen is None else WordChunker(f"words-{chosen.tokens}")
