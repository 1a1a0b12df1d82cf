"""A section a passage: cut where the author put a heading, and nowhere else as long as it fits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ingest.chunking import ChunkOptions, SentenceChunker
from ingest.tokens import TokenCounter
from pipeline.chunking import USUAL
from pipeline.passages import Document, Passage


@dataclass(frozen=True, slots=True)
class HeadingOptions:
    """A section of more than `tokens` is cut by sentences, `overlap` tokens of which may come twice.

    With `merge`, a section of fewer tokens than that joins its neighbour under the same top heading; 0 leaves every
    section alone, however short.
    """

    tokens: int = USUAL
    overlap: int = 0
    merge: int = 0


class HeadingChunker:
    """Sections are found and cut as by `SentenceChunker`; what it does to tiny ones is asked for here, not assumed."""

    def __init__(self, sections: SentenceChunker) -> None:
        self._sections = sections

    @classmethod
    def open(cls, tokenizer_path: Path, options: HeadingOptions | None = None) -> HeadingChunker:
        """Reads the tokenizer's file. Raises Misconfigured for options that cannot work or a file that is none."""
        return cls.counting(TokenCounter.open(tokenizer_path), options)

    @classmethod
    def counting(cls, counter: TokenCounter, options: HeadingOptions | None = None) -> HeadingChunker:
        """Counts with this tokenizer. Raises Misconfigured for options that cannot work."""
        options = options or HeadingOptions()
        sizes = ChunkOptions(options.tokens, options.overlap, options.merge)
        return cls(SentenceChunker.counting(counter, sizes))

    @property
    def fingerprint(self) -> str:
        """Changes with the options and with whatever changes the fingerprint of cutting by sentences."""
        return f"headings-1:{self._sections.fingerprint}"

    def chunk(self, document: Document) -> tuple[Passage, ...]:
        """The passages in the document's order; each is a section, or a part of one that is too long."""
        return self._sections.chunk(document)
