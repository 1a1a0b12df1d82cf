"""From a document to passages: by sections, then by paragraphs and sentences, sized in the embedder's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from semantic_text_splitter import TextSplitter

from ingest.passage import Piece, passage_of
from ingest.sections import merged, sections_of
from ingest.tokens import TokenCounter
from pipeline.chunking import SHORTEST, TINY, USUAL
from pipeline.errors import Misconfigured
from pipeline.passages import Document, Passage

_CHARACTERS_PER_TOKEN = 10  # at most; English prose has 4 to 5, and words unknown to WordPiece are one token each
_WINDOW = 2  # longest passages looked at together


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """`tokens` a passage has at most, of which `overlap` at most repeat the end of the one before (within a section).

    What is repeated are whole sentences, as many as fit. A section with fewer tokens than `minimum` joins its neighbour
    under the same top heading.
    """

    tokens: int = USUAL
    overlap: int = 0
    minimum: int = TINY

    def check(self) -> None:
        """Raises Misconfigured for sizes that cannot work."""
        if self.tokens < SHORTEST or not 0 <= self.overlap <= self.tokens // 2:
            raise Misconfigured(
                f"A passage of {self.tokens} tokens with an overlap of {self.overlap} cannot work: it needs at "
                f"least {SHORTEST} tokens, and at most half of them may overlap."
            )


class SentenceChunker:
    """Cuts at the best boundary that fits: paragraphs, lines, sentences, then words (Unicode's rules, UAX 29).

    No passage spans two headings, tiny sections apart. The splitter's time grows with the square of what it is given
    (100,000 characters of unspaced text took 16 to 28 s), so it is shown a few passages' worth of text at a time.
    """

    def __init__(self, counter: TokenCounter, splitter: TextSplitter, options: ChunkOptions) -> None:
        self.options = options
        self._counter = counter
        self._splitter = splitter
        self._longest = options.tokens * _CHARACTERS_PER_TOKEN
        self._by_characters = TextSplitter(self._longest)

    @classmethod
    def open(cls, tokenizer_path: Path, options: ChunkOptions | None = None) -> SentenceChunker:
        """Reads the tokenizer's file. Raises Misconfigured for options that cannot work or a file that is none."""
        return cls.counting(TokenCounter.open(tokenizer_path), options)

    @classmethod
    def counting(cls, counter: TokenCounter, options: ChunkOptions | None = None) -> SentenceChunker:
        """Counts with this tokenizer. Raises Misconfigured for options that cannot work."""
        options = options or ChunkOptions()
        options.check()
        splitter = TextSplitter.from_huggingface_tokenizer(counter.tokenizer, options.tokens, options.overlap)
        return cls(counter, splitter, options)

    @property
    def fingerprint(self) -> str:
        """Changes with the options, the splitting library, this module's rules (2) and the tokenizer's file."""
        options = self.options
        return (
            f"sentences-2:{options.tokens}:{options.overlap}:{options.minimum}"
            f":semantic-text-splitter-{version('semantic-text-splitter')}:{self._counter.fingerprint}"
        )

    def chunk(self, document: Document) -> tuple[Passage, ...]:
        """The passages in the document's order, at least one for a document with text."""
        options = self.options
        sections = merged(sections_of(document.blocks), options.minimum, options.tokens, self._counter.count)
        pieces = [
            Piece(number, offset, text, section.heading, section.page(offset))
            for number, section in enumerate(sections)
            for offset, text in self._pieces(section.text)
        ]
        return tuple(
            passage_of(document, ordinal, piece, self._counter.count(piece.text))
            for ordinal, piece in enumerate(pieces)
        )

    def _pieces(self, text: str) -> Iterator[tuple[int, str]]:
        """Pieces with their offsets, found in a window that moves along: its last piece opens the next window."""
        start, window = 0, self._longest * _WINDOW
        while start < len(text):
            found = self._splitter.chunk_indices(text[start : start + window])
            is_last = start + window >= len(text)
            keep = found if is_last or not found or found[-1][0] == 0 else found[:-1]
            for offset, piece in keep:
                yield from self._bounded(start + offset, piece)
            start += window if keep is found else found[-1][0]

    def _bounded(self, offset: int, piece: str) -> Iterator[tuple[int, str]]:
        """WordPiece takes a word of over 100 characters for one unknown token: such text is bounded by characters.

        A part of such a word may be known, and so have more tokens than the whole: parts are measured again.
        """
        if len(piece) <= self._longest:
            yield offset, piece
            return
        for inner, part in self._by_characters.chunk_indices(piece):
            for innermost, text in self._splitter.chunk_indices(part):
                yield offset + inner + innermost, text
