"""BM25 postings: computed when a generation is written, mapped into memory when it is searched.

A posting holds the part of BM25 that depends on one passage alone,

    impact = tf / (tf + k1 * (1 - b + b * length / average length))

without idf, which is applied to the query's terms from document frequencies when they are looked up; so segments that
are written apart stay comparable, as long as they share one average length: a delta is written with its base's.

The scores are those of Lucene's BM25Similarity since version 8 (no factor k1 + 1),
the variant that bm25s calls `lucene`: Kamphuis, de Vries, Boytsov and Lin, "Which BM25 do you mean?" (ECIR 2020).
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieve.analysis import Analyzer, words
from retrieve.giving_way import give_way

FILES = ("terms.bin", "term_offsets.npy", "posting_offsets.npy", "posting_rows.npy", "posting_impacts.npy")


@dataclass(frozen=True, slots=True)
class Bm25Options:
    """`k1` is how slowly repeated terms saturate, `b` how much long passages are held back."""

    k1: float = 1.5
    b: float = 0.75


@dataclass(frozen=True, slots=True)
class Postings:
    """Terms sorted by their UTF-8 bytes, and for each a run of rows, ascending, with impacts.

    Shapes: `term_offsets` and `offsets` `[terms + 1] int64`, `rows` `[postings] int32`, `impacts` `[postings] float32`.
    """

    documents: int
    terms: bytes | mmap.mmap
    term_offsets: NDArray[np.int64]
    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]
    impacts: NDArray[np.float32]

    @classmethod
    def open(cls, folder: Path, documents: int) -> Postings:
        """Maps the files; pages are read as they are needed.

        Copy-on-write, though nothing is written: numba takes 30 µs longer to dispatch a call with read-only arrays.
        """
        loaded: list[NDArray[Any]] = []
        for name in FILES[1:]:
            give_way()
            loaded.append(np.asarray(np.load(folder / name, mmap_mode="c", allow_pickle=False)))
        return cls(documents, map_file(folder / FILES[0]), *loaded)

    def files(self) -> Mapping[str, bytes | mmap.mmap | NDArray[np.generic]]:
        """What to write, by file name."""
        arrays = (self.term_offsets, self.offsets, self.rows, self.impacts)
        return {FILES[0]: self.terms, **dict(zip(FILES[1:], arrays, strict=True))}


class PostingsBuilder:
    """Collects passages in row order, then computes all postings with array operations.

    A word is stemmed once per language, not once per occurrence.
    """

    def __init__(self, options: Bm25Options | None = None) -> None:
        self.options = options or Bm25Options()
        self._vocabulary: dict[str, int] = {}
        self._tables: dict[str | None, TermTable] = {}
        self._numbers = array("i")
        self._lengths = array("q")

    def add(self, text: str, language: str | None) -> None:
        """The next row's text, analysed in its language."""
        table = self._tables.get(language)
        if table is None:
            table = self._tables[language] = TermTable(Analyzer(language), self._vocabulary)
        found = words(text)
        self._numbers.extend(map(table.__getitem__, found))
        self._lengths.append(len(found))

    @property
    def average_length(self) -> float:
        """Terms a passage, stop words not counted; 0 where there is nothing."""
        numbers = np.frombuffer(self._numbers, np.int32) if self._numbers else np.empty(0, np.int32)
        return int(np.count_nonzero(numbers >= 0)) / len(self._lengths) if self._lengths else 0.0

    def build(self, average_length: float | None = None) -> Postings:
        """The postings of everything added, by its own average length or by that of what it will be searched with."""
        documents = len(self._lengths)
        terms = sorted(self._vocabulary)  # by code point, which is the order of UTF-8 bytes too
        numbers = np.frombuffer(self._numbers, np.int32) if self._numbers else np.empty(0, np.int32)
        lengths = np.frombuffer(self._lengths, np.int64) if self._lengths else np.empty(0, np.int64)
        rows = np.repeat(np.arange(documents, dtype=np.int64), lengths)
        kept = numbers >= 0
        rows, numbers = rows[kept], numbers[kept]

        sorted_number = np.empty(len(terms), np.int64)
        sorted_number[[self._vocabulary[term] for term in terms]] = np.arange(len(terms))
        pairs, frequencies = np.unique(sorted_number[numbers] * max(documents, 1) + rows, return_counts=True)
        term_of, row_of = np.divmod(pairs, max(documents, 1))

        encoded = [term.encode(errors="replace") for term in terms]
        return Postings(
            documents,
            b"".join(encoded),
            _offsets(np.fromiter(map(len, encoded), np.int64, len(encoded))),
            _offsets(np.bincount(term_of, minlength=len(terms))),
            row_of.astype(np.int32),
            self._impacts(frequencies, row_of, np.bincount(rows, minlength=documents), average_length),
        )

    def _impacts(
        self,
        frequencies: NDArray[np.int64],
        row_of: NDArray[np.int64],
        lengths: NDArray[np.int64],
        average_length: float | None,
    ) -> NDArray[np.float32]:
        k1, b = self.options.k1, self.options.b
        average = average_length or self.average_length or 1.0  # 0 only where there is nothing to score
        damping = k1 * (1 - b + b * lengths / average)
        return (frequencies / (frequencies + damping[row_of])).astype(np.float32)


class TermTable(dict[str, int]):
    """One language's words and their terms' numbers, -1 for a stop word; a new word is analysed when first met."""

    def __init__(self, analyzer: Analyzer, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self._analyzer = analyzer
        self._vocabulary = vocabulary

    def __missing__(self, word: str) -> int:
        term = self._analyzer.term(word)
        number = -1 if term is None else self._vocabulary.setdefault(term, len(self._vocabulary))
        self[word] = number
        return number


def map_file(file: Path) -> bytes | mmap.mmap:
    """The file's bytes, mapped; an empty file cannot be mapped and is empty bytes."""
    with file.open("rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY) if file.stat().st_size else b""


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
