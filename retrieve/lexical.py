"""BM25 over one generation's postings: one compiled loop that lets go of the interpreter lock."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from retrieve.postings import Postings
from retrieve.rows import Rows

if TYPE_CHECKING:
    from retrieve.lexical_kernel import Kernel

EVERY_ROW = np.empty(0, np.uint8)


class LexicalIndex:
    """Searches postings. Safe to use from several threads: each has a score buffer of its own, 8 bytes a passage."""

    def __init__(self, postings: Postings) -> None:
        self.postings = postings
        self._buffers = threading.local()

    def warm_up(self) -> None:
        """Compiles the kernel, or loads it from numba's cache, so that no request waits for it."""
        _kernel()

    def find(self, term: str) -> tuple[int, int] | None:
        """Where the term's postings start and end; None where no row has it."""
        return self.postings.find(term)

    def search(
        self,
        terms: Mapping[str, float],
        k: int,
        *,
        statistics: Statistics | None = None,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Rows:
        """The best `k` rows for weighted terms; rows in which none occurs are never among them.

        `statistics` make scores comparable with other indexes; without them this index counts alone. `allowed` is
        `[documents] uint8`, 0 for rows to leave out; the others keep the scores they have without it. Ties go to the
        lower row.
        """
        statistics = statistics or Statistics.of([self], terms)
        documents = self.postings.documents
        runs = [(run, weight * statistics.idf(term)) for term, weight in terms.items() if (run := self.find(term))]
        if not runs or k <= 0:
            return Rows.none()
        starts = np.array([run[0] for run, _ in runs], np.int64)
        ends = np.array([run[1] for run, _ in runs], np.int64)
        weights = np.array([weight for _, weight in runs], np.float32)
        k = min(k, documents)
        rows, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        sums, touched = self._buffer()
        found = _kernel()(
            starts,
            ends,
            weights,
            self.postings.rows,
            self.postings.impacts,
            EVERY_ROW if allowed is None else allowed,
            sums,
            touched,
            rows,
            scores,
        )
        return Rows(rows[:found].astype(np.int64), scores[:found])

    def _buffer(self) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """This thread's sums, all zero between searches, and the list of rows that a search has touched."""
        kept = cast("tuple[NDArray[np.float32], NDArray[np.int32]] | None", getattr(self._buffers, "kept", None))
        if kept is None:
            documents = self.postings.documents
            kept = np.zeros(documents, np.float32), np.empty(documents, np.int32)
            self._buffers.kept = kept
        return kept


@dataclass(frozen=True, slots=True)
class Statistics:
    """Over how many documents, and in how many of them each term: of one index, or of several searched as one."""

    documents: int
    frequencies: Mapping[str, int]

    @classmethod
    def of(cls, indexes: Sequence[LexicalIndex], terms: Iterable[str]) -> Statistics:
        """Counts the terms over all of the indexes."""
        frequencies: dict[str, int] = {}
        for term in terms:
            runs = [index.find(term) for index in indexes]
            frequencies[term] = sum(run[1] - run[0] for run in runs if run)
        return cls(sum(index.postings.documents for index in indexes), frequencies)

    def idf(self, term: str) -> float:
        """Lucene's inverse document frequency, which is never negative."""
        frequency = self.frequencies[term]
        return log(1 + (self.documents - frequency + 0.5) / (frequency + 0.5))


def _kernel() -> Kernel:
    """The compiled loop. Numba takes a second to import, which a worker that only writes need not pay."""
    from retrieve.lexical_kernel import kernel  # noqa: PLC0415

    return kernel()
