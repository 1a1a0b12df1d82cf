"""Chunkers by what a collection has chosen, opened when they are first asked for."""

from __future__ import annotations

from pathlib import Path

from ingest.chunking import ChunkOptions, SentenceChunker
from ingest.headings import HeadingChunker, HeadingOptions
from ingest.tokens import TokenCounter
from ingest.whole import WholeChunker
from ingest.windows import TokenChunker, WindowOptions
from pipeline.chunking import Chunking, Cut
from pipeline.ports import Chunker

_KEPT = 16  # opened chunkers; each takes a few kilobytes beside the tokenizer, which all of them share


class ChosenChunkers:
    """Implements Chunkers. Keeps those that were asked for last; not for several threads at once."""

    def __init__(self, counter: TokenCounter, default: Chunking) -> None:
        self._counter = counter
        self._default = default
        self._opened: dict[Chunking, Chunker] = {}

    @classmethod
    def open(cls, tokenizer_path: Path, default: Chunking) -> ChosenChunkers:
        """Reads the tokenizer's file and opens the default, so that what cannot work is said at the start.

        Raises Misconfigured.
        """
        chunkers = cls(TokenCounter.open(tokenizer_path), default)
        chunkers.chunker(None)
        return chunkers

    def chunker(self, chosen: Chunking | None) -> Chunker:
        """Implements Chunkers."""
        chunking = chosen or self._default
        opened = self._opened.pop(chunking, None) or _opened(chunking, self._counter)
        self._opened[chunking] = opened
        if len(self._opened) > _KEPT:
            del self._opened[next(iter(self._opened))]
        return opened


def _opened(chunking: Chunking, counter: TokenCounter) -> Chunker:
    tokens, overlap, minimum = chunking.tokens, chunking.overlap, chunking.minimum
    match chunking.chunker:
        case Cut.TOKENS:
            return TokenChunker.counting(counter, WindowOptions(tokens, overlap))
        case Cut.SENTENCES:
            return SentenceChunker.counting(counter, ChunkOptions(tokens, overlap, minimum))
        case Cut.HEADINGS:
            return HeadingChunker.counting(counter, HeadingOptions(tokens, overlap, minimum))
        case Cut.WHOLE:
            return WholeChunker.counting(counter)
