"""Nearest among allowed rows, over an index that knows no filter: search deeper, check, and compare exactly when short.

No index is trusted with a filter: graphs lose recall under one (.91, .61 and .17 at 50, 10 and 1 % allowed), and what a
GPU's selector returned is checked here like everything else. What is dead is left out in the same way, and there are
two sorts of that: a few rows of a million, and all that a query would find, because a document was replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from retrieve.rows import Rows

Search = Callable[[NDArray[np.float32], int], Rows]


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Up to `exact_up_to` allowed rows are compared one by one. Of more the index is asked for `deeper` times as many
    others as chance would bring, and `more`; when that falls short `again` times as deep; never beyond `deepest`."""

    exact_up_to: int = 5_000
    deeper: float = 2.0
    more: int = 32
    again: int = 4
    deepest: int = 2_048


def nearest_allowed(
    search: Search,
    vectors: NDArray[np.float32],
    vector: NDArray[np.float32],
    k: int,
    allowed: NDArray[np.uint8],
    options: FilterOptions | None = None,
) -> Rows:
    """The `k` nearest of the rows whose `allowed`, `[rows] uint8`, is not 0; ties go to the lower row.

    `search` finds the nearest of all rows of `vectors`, which is `[rows, dimensions] float32`.
    """
    options = options or FilterOptions()
    count = int(np.count_nonzero(allowed))
    k = min(k, count)
    if k <= 0:
        return Rows.none()
    if count > options.exact_up_to:
        depth = k + ceil(options.deeper * k * (len(allowed) - count) / count) + options.more
        for deep in (depth, depth * options.again):
            if deep > options.deepest:
                break
            found = search(vector, min(deep, len(allowed)))
            kept = allowed[found.rows] != 0
            if np.count_nonzero(kept) >= k:
                return Rows(found.rows[kept][:k], found.scores[kept][:k])
    return nearest_of(np.flatnonzero(allowed != 0), vectors, vector, k)


def nearest_of(rows: NDArray[np.int64], vectors: NDArray[np.float32], vector: NDArray[np.float32], k: int) -> Rows:
    """The `k` nearest of `rows`, ascending, by exact inner product with `vector`; vectors are read and not copied."""
    rows = np.ascontiguousarray(rows, np.int64)
    scores = np.empty(len(rows), np.float32)
    library = cast("Any", faiss)
    query = np.ascontiguousarray(vector, np.float32)
    pointers = [library.swig_ptr(each) for each in (scores, query, vectors, rows)]
    library.fvec_inner_products_by_idx(*pointers, vectors.shape[1], 1, len(rows))
    best = np.argsort(-scores, kind="stable")[:k]
    return Rows(rows[best], scores[best])
