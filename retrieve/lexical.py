"""BM25 over one segment's postings."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from retrieve.postings import Postings
from retrieve.rows import Rows

if TYPE_CHECKING:
    from retrieve.lexical_kernel import Kernel

EVERY_ROW = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Runs:
    """Where each known term's postings start and end, `[terms] int64` both; unknown terms are not among `terms`."""

    terms: tuple[str, ...]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Over how many documents, and in how many of them each term: of one index, or of several searched as one."""

    documents: int
    frequencies: Mapping[str, int]

    @classmethod
    def of(cls, indexes: Sequence[LexicalIndex], found: Sequence[Runs]) -> Statistics:
        """Adds up what each index found."""
        frequencies: dict[str, int] = {}
        for runs in found:
            counts: list[int] = (runs.ends - runs.starts).tolist()
            for term, count in zip(runs.terms, counts, strict=True):
                frequencies[term] = frequencies.get(term, 0) + count
        return cls(sum(index.postings.documents for index in indexes), frequencies)

    def idf(self, term: str) -> float:
        """Lucene's inverse document frequency, which is never negative."""
        frequency = self.frequencies.get(term, 0)
        return log(1 + (self.documents - frequency + 0.5) / (frequency + 0.5))


class LexicalIndex:
    """Searches postings. Safe to use from several threads: each has a score buffer of its own, 8 bytes a passage."""

    def __init__(self, postings: Postings) -> None:
        self.postings = postings
        terms = bytearray(postings.terms) if isinstance(postings.terms, bytes) else postings.terms
        self._terms = np.frombuffer(terms, np.uint8) if len(terms) else EVERY_ROW
        self._buffers = threading.local()

    def warm_up(self) -> None:
        """Compiles the kernel, or loads it from numba's cache, so that no request waits for it."""
        _kernel()

    def find(self, terms: Iterable[str]) -> Runs:
        """Looks terms up, some 2 µs each."""
        sought = tuple(terms)
        encoded = [term.encode(errors="replace") for term in sought]
        offsets = np.array([0, *accumulate(map(len, encoded))], np.int64)
        starts, ends = np.empty(len(sought), np.int64), np.empty(len(sought), np.int64)
        joined = np.frombuffer(bytearray().join(encoded) or bytearray(1), np.uint8)
        postings = self.postings
        found = _kernel().find_terms(
            joined, offsets, self._terms, postings.term_offsets, postings.offsets, starts, ends
        )
        if found < len(sought):
            known = ends > starts
            sought = tuple(term for term, is_known in zip(sought, known.tolist(), strict=True) if is_known)
            starts, ends = starts[known], ends[known]
        return Runs(sought, starts, ends)

    def search(
        self,
        terms: Mapping[str, float],
        k: int,
        *,
        runs: Runs | None = None,
        statistics: Statistics | None = None,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Rows:
        """The best `k` rows for weighted terms; rows in which none occurs are never among them.

        `runs` are the terms looked up already, in this index. `statistics` make scores comparable with other indexes;
        without them this index counts alone. `allowed` is `[documents] uint8`, 0 for rows to leave out; the others
        keep the scores they have without it. Ties go to the lower row.
        """
        runs = runs or self.find(terms)
        if not runs.terms or k <= 0:
            return Rows.none()
        statistics = statistics or Statistics.of([self], [runs])
        k = min(k, self.postings.documents)
        rows, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        found = _kernel().search_postings(
            runs.starts,
            runs.ends,
            np.array([terms[term] * statistics.idf(term) for term in runs.terms], np.float32),
            self.postings.rows,
            self.postings.impacts,
            EVERY_ROW if allowed is None else allowed,
            *self._buffer(),
            rows,
            scores,
        )
        return Rows(rows[:found], scores[:found])

    def _buffer(self) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """This thread's sums, all zero between searches, and the list of rows that a search has touched."""
        kept = cast("tuple[NDArray[np.float32], NDArray[np.int32]] | None", getattr(self._buffers, "kept", None))
        if kept is None:
            documents = self.postings.documents
            kept = np.zeros(documents, np.float32), np.empty(documents + 1, np.int32)
            self._buffers.kept = kept
        return kept


def _kernel() -> Kernel:
    """The compiled loops. Numba takes a second to import, which a worker that only writes need not pay."""
    from retrieve.lexical_kernel import kernel  # noqa: PLC0415

    return kernel()
