"""Windows of so many tokens, one after the other, whatever the text says: the plainest way to cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

from ingest.chunking import ChunkOptions
from ingest.passage import Piece, passage_of
from ingest.sections import joined, sections_of
from ingest.tokens import TokenCounter
from pipeline.chunking import USUAL
from pipeline.passages import Document, Passage

_STRETCH = 50_000  # characters tokenised together, some 12,000 tokens
_LONGEST = 100  # characters of a token; WordPiece takes whole words that are longer for one unknown token
_PART = 10  # characters into which such a word is divided; each may turn out to be a token


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """`tokens` a passage has at most; it begins `overlap` tokens before the end of the one before."""

    tokens: int = USUAL
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class Units:
    """A text as runs that are never divided: the first character of each, and the tokens before each and behind all.

    A run is a token, or the few tokens within one character as a reader sees it (UAX 29: a letter with its accents).
    """

    starts: tuple[int, ...]
    before: tuple[int, ...]


class TokenChunker:
    """Cuts at the offsets of the embedder's tokens. The document is one text, in which headings stand as lines."""

    def __init__(self, counter: TokenCounter, options: WindowOptions) -> None:
        self.options = options
        self._counter = counter
        # tokenizers' own regular expressions know clusters, so no other library has to.
        self._clusters = pre_tokenizers.Split(Regex(r"\X"), "isolated")

    @classmethod
    def open(cls, tokenizer_path: Path, options: WindowOptions | None = None) -> TokenChunker:
        """Reads the tokenizer's file. Raises Misconfigured for options that cannot work or a file that is none."""
        return cls.counting(TokenCounter.open(tokenizer_path), options)

    @classmethod
    def counting(cls, counter: TokenCounter, options: WindowOptions | None = None) -> TokenChunker:
        """Counts with this tokenizer. Raises Misconfigured for options that cannot work."""
        options = options or WindowOptions()
        ChunkOptions(options.tokens, options.overlap).check()
        return cls(counter, options)

    @property
    def fingerprint(self) -> str:
        """Changes with the options and the tokenizer's file."""
        return f"tokens-1:{self.options.tokens}:{self.options.overlap}:{self._counter.fingerprint}"

    def chunk(self, document: Document) -> tuple[Passage, ...]:
        """The passages in the document's order, each under the heading where it begins."""
        if not document.blocks:
            return ()
        whole = joined(sections_of(document.blocks))
        return tuple(
            passage_of(
                document,
                ordinal,
                Piece(0, start, whole.text[start:end], whole.heading_at(start), whole.page(start)),
                tokens,
            )
            for ordinal, (start, end, tokens) in enumerate(self._windows(whole.text))
        )

    def _windows(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Where each window begins and ends, without blanks at its edges, and its tokens."""
        units = self._units(text)
        count, first = len(units.starts), 0
        while first < count:
            last, start, end, tokens = self._fitted(text, units, first)
            if tokens or start < end:
                yield start, end, tokens
            if last == count:
                return
            # The first unit from which on no more than the overlap is repeated; always further than where it began.
            again = bisect_right(units.before, units.before[last] - self.options.overlap - 1)
            first = max(min(again, last), first + 1)

    def _fitted(self, text: str, units: Units, first: int) -> tuple[int, int, int, int]:
        """The unit behind a window that begins with unit `first`, its edges, and its tokens.

        A piece of text may have more tokens than it had as a part: a word that was cut is another word. So what came
        out is counted, and where it is too much the window is shortened.
        """
        count, most = len(units.starts), self.options.tokens
        last = max(bisect_right(units.before, units.before[first] + most) - 1, first + 1)
        while True:
            start, end = _trimmed(text, units.starts[first], units.starts[last] if last < count else len(text))
            tokens = self._counter.count(text[start:end])
            if tokens <= most or last == first + 1:
                return last, start, end, tokens
            last = first + max(1, min(last - first - 1, (last - first) * most // tokens))

    def _units(self, text: str) -> Units:
        starts: list[int] = []
        weights: list[int] = []
        for begin, stretch in self._stretches(text):
            divisible = None if stretch.isascii() else self._bounds(stretch)
            for start, end in _spans(self._counter.starts(stretch), len(stretch)):
                if divisible is not None and start not in divisible and starts:
                    weights[-1] += 1  # within a cluster: the token before and this one are not divided
                    continue
                width, weight = (_PART, _PART) if end - start > _LONGEST else (end - start, 1)
                for part in range(start, end, width):
                    if divisible is None or part in divisible or part == start:
                        starts.append(begin + part)
                        weights.append(weight)
        return Units(tuple(starts), tuple(accumulate(weights, initial=0)))

    def _stretches(self, text: str) -> Iterator[tuple[int, str]]:
        """The text in stretches, so that memory is bounded; cut behind a blank, where no token and no cluster ends."""
        begin = 0
        while len(text) - begin > _STRETCH:
            end = max(text.rfind(blank, begin + 1, begin + _STRETCH) for blank in " \n") + 1
            if end <= begin + 1:
                bounds = self._bounds(text[begin : begin + _STRETCH + _LONGEST])
                end = begin + max(bound for bound in bounds if bound <= _STRETCH)
            yield begin, text[begin:end]
            begin = end
        if begin < len(text):
            yield begin, text[begin:]

    def _bounds(self, text: str) -> frozenset[int]:
        """Where clusters begin."""
        return frozenset(start for _, (start, _) in self._clusters.pre_tokenize_str(text))


def _spans(starts: list[int], length: int) -> Iterator[tuple[int, int]]:
    """From the first character of each token to that of the next; the first span begins where the text does.

    Tokenizers drop some characters (controls, accents): they stay with the token before them.
    """
    kept = [0]
    for start in starts[1:]:
        if start > kept[-1]:
            kept.append(start)
    yield from zip(kept, [*kept[1:], length], strict=True)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
