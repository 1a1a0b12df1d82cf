"""Nearest vectors by inner product, with FAISS: one by one while that is cheap, then by 4-bit codes first.

Above `exact_up_to` vectors every pair of dimensions has a code of 4 bits; the codes are compared in registers, and the
best few hundred rows again by their own vectors, so scores are always exact. Above `scanned_up_to` the codes lie in
lists by nearest centroid, and only lists near the query are read. `docs/adr/0006-dense-index-kinds.md` has what was
measured. André, Kermarrec and Le Scouarnec, "Cache locality is not enough: high-performance nearest neighbor search
with product quantization fast scan" (VLDB 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Protocol, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Damaged
from retrieve.coded import CodedOptions, depth
from retrieve.filtered import nearest_allowed, nearest_of
from retrieve.rows import Rows


@dataclass(frozen=True, slots=True)
class DenseOptions:
    """Up to `exact_up_to` vectors are compared one by one, up to `scanned_up_to` all by their codes, more by lists.

    Of what the codes find, `compared` + `compared_each` x k rows are compared exactly. Of lists so many are read that
    they hold `read_share` of all rows, and `read_each` x k at least. `ef_search` is for graphs (HNSW), which earlier
    versions wrote.
    """

    exact_up_to: int = 20_000
    scanned_up_to: int = 200_000
    compared: int = 400
    compared_each: int = 4
    read_share: float = 0.05
    read_each: int = 400
    ef_search: int = 128
    build_threads: int = 1


class DenseSearch(Protocol):
    """What a request asks of vectors, wherever they are."""

    def search(self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.uint8] | None = None) -> Rows:
        """The `k` rows nearest to `[dimensions] float32`, L2-normalised; ties go to the lower row.

        `allowed` is `[rows] uint8`, 0 for rows to leave out.
        """
        ...

    def warm_up(self) -> None:
        """Touches what the first search needs."""
        ...


class DenseIndex:
    """A FAISS index, mapped from its file where its kind allows. Safe to use from several threads.

    `vectors` is `[rows, dimensions] float32`, L2-normalised, what the index was made from.
    """

    def __init__(
        self,
        index: faiss.Index,
        vectors: NDArray[np.float32],
        options: DenseOptions,
        filtering: CodedOptions | None = None,
    ) -> None:
        self._index = cast("Any", index)
        self._vectors = vectors
        self._options = options
        self._graph = isinstance(index, faiss.IndexHNSW)
        self._lists = int(self._index.nlist) if isinstance(index, faiss.IndexIVF) else 0
        self._filtering = filtering or CodedOptions()
        self._coded = isinstance(index, (faiss.IndexPQFastScan, faiss.IndexIVFPQFastScan))

    @classmethod
    def open(
        cls,
        file: Path,
        vectors: NDArray[np.float32],
        options: DenseOptions,
        filtering: CodedOptions | None = None,
    ) -> DenseIndex:
        """Raises Damaged when FAISS cannot read the file, or when it is not of these vectors."""
        try:
            index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise Damaged(
                f"This FAISS cannot read '{file.name}', though it is as it was written. Make the collection anew with "
                "`fleetfoot refresh`."
            ) from error
        if (index.ntotal, index.d) != vectors.shape:
            raise Damaged(
                f"'{file.name}' is of {index.ntotal} x {index.d} vectors, and there are {vectors.shape[0]} x "
                f"{vectors.shape[1]}. Make the collection anew with `fleetfoot refresh`."
            )
        return cls(index, vectors, options, filtering)

    @property
    def rows(self) -> int:
        """How many vectors there are."""
        return int(self._index.ntotal)

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self._index.d)

    def warm_up(self) -> None:
        """Reads what a search of any query reads; the rows that codes lead to are read when they are first found."""
        self.search(np.zeros(self.dimensions, np.float32), 1)

    def search(self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.uint8] | None = None) -> Rows:
        """Implements DenseSearch."""
        # OpenMP keeps this per calling thread. Two threads for four callers took 47 queries/s down to 23.
        faiss.omp_set_num_threads(1)
        if allowed is None:
            return self._nearest(vector, k)
        if self._coded:
            return self._allowed_by_codes(vector, k, allowed)
        return nearest_allowed(self._nearest, self._vectors, vector, k, allowed)

    def _nearest(self, vector: NDArray[np.float32], k: int) -> Rows:
        k = min(k, self.rows)
        if k <= 0:
            return Rows.none()
        if self._coded:
            return self._by_codes(vector, k)
        wider: Any = None
        if self._graph:
            wider = cast("Any", faiss).SearchParametersHNSW(efSearch=max(self._options.ef_search, k))
        scores, rows = self._index.search(vector[None, :], k, params=wider)
        return in_order(rows[0], scores[0])

    def _by_codes(self, vector: NDArray[np.float32], k: int) -> Rows:
        rows = self._found_by_codes(vector, min(self._compared(k), self.rows), self._near(k))
        return nearest_of(rows, self._vectors, vector, k)

    def _allowed_by_codes(self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.uint8]) -> Rows:
        """Like `_by_codes` among allowed rows: as many of them are compared exactly. See `retrieve.coded`."""
        options, count = self._filtering, int(np.count_nonzero(allowed))
        k = min(k, count)
        if k <= 0:
            return Rows.none()
        near = self._near(depth(k, count, self.rows))
        wanted = min(self._compared(k), count)
        if not options.compares_all(count, self.rows * near / (self._lists or 1)):
            wider, mostly = 1, count >= options.mostly * self.rows
            while wider <= options.widest:
                wide = min(wanted * wider, count)
                if self._lists and not (mostly and wider == 1):
                    among = cast("Any", faiss).IDSelectorBitmap(np.packbits(allowed != 0, bitorder="little"))
                else:
                    wide, among = depth(wide, count, self.rows), None
                rows = self._found_by_codes(vector, wide, min(near * wider, self._lists), among)
                rows = rows[allowed[rows] != 0]  # no selector is trusted
                if len(rows) >= max(options.enough * min(wanted * wider, count), k):
                    return nearest_of(rows, self._vectors, vector, k)
                wider = options.next(wider, wanted * wider, len(rows))
        return nearest_of(np.flatnonzero(allowed != 0), self._vectors, vector, k)

    def _found_by_codes(
        self, vector: NDArray[np.float32], wide: int, lists: int, among: Any = None
    ) -> NDArray[np.int64]:
        """The rows whose codes are nearest, in the order in which they lie, for so they are read."""
        parameters: Any = None
        if self._lists:
            given = {} if among is None else {"sel": among}
            parameters = cast("Any", faiss).SearchParametersIVF(nprobe=lists, **given)
        _, found = self._index.search(vector[None, :], wide, params=parameters)
        rows: NDArray[np.int64] = np.sort(found[0][found[0] >= 0])
        return rows

    def _compared(self, k: int) -> int:
        """How many rows are compared exactly."""
        return self._options.compared + self._options.compared_each * k

    def _near(self, k: int) -> int:
        """How many lists are read."""
        if not self._lists:
            return 1
        wanted = max(self._options.read_share * self.rows, self._options.read_each * k)
        return min(ceil(self._lists * wanted / self.rows), self._lists)


def in_order(rows: NDArray[np.int64], scores: NDArray[np.float32]) -> Rows:
    """FAISS leaves ties in any order and fills up with -1; here the lower row comes first and the filling is gone."""
    found = rows >= 0
    rows, scores = rows[found], scores[found]
    order = np.lexsort((rows, -scores))
    return Rows(rows[order], scores[order])
