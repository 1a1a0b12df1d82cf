"""The loop of BM25, compiled by numba; imported by the first search only."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol, cast

import numpy as np
from numba import njit, types  # pyright: ignore[reportUnknownVariableType]  # numba's types are partial
from numpy.typing import NDArray


class Kernel(Protocol):
    """The compiled `search_postings`."""

    def __call__(
        self,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        weights: NDArray[np.float32],
        rows: NDArray[np.int32],
        impacts: NDArray[np.float32],
        allowed: NDArray[np.uint8],
        sums: NDArray[np.float32],
        touched: NDArray[np.int32],
        best_rows: NDArray[np.int32],
        best_scores: NDArray[np.float32],
    ) -> int: ...


@cache
def kernel() -> Kernel:
    """Compiles for the one signature in use: seconds the first time, some 50 ms from numba's cache afterwards."""

    def flat(kind: Any, *, readonly: bool = False) -> Any:
        return types.Array(kind, 1, "C", readonly=readonly)

    inputs = [types.int64, types.int64, types.float32]
    mapped = [types.int32, types.float32, types.uint8]
    outputs = [types.float32, types.int32, types.int32, types.float32]
    signature = types.int64(
        *(flat(kind) for kind in inputs), *(flat(kind, readonly=True) for kind in mapped), *map(flat, outputs)
    )
    compile_ = cast("Any", njit)
    try:
        return cast("Kernel", compile_([signature], nogil=True, cache=True)(search_postings))
    except RuntimeError:  # no folder in which numba could keep its cache: compile at every start
        return cast("Kernel", compile_([signature], nogil=True)(search_postings))


def search_postings(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    weights: NDArray[np.float32],
    rows: NDArray[np.int32],
    impacts: NDArray[np.float32],
    allowed: NDArray[np.uint8],
    sums: NDArray[np.float32],
    touched: NDArray[np.int32],
    best_rows: NDArray[np.int32],
    best_scores: NDArray[np.float32],
) -> int:
    """Adds up what each term contributes, keeps the best in a heap whose root is the worst, sorts it, clears up.

    Contributions are positive, so a sum of zero means that a row was not touched yet. Only touched rows are looked at:
    selecting among mostly zeros costs 5 ms at 100,000 passages. Returns how many of `best_rows` are filled.
    """
    count = 0
    every = len(allowed) == 0
    for term in range(len(starts)):
        weight = weights[term]
        for posting in range(starts[term], ends[term]):
            row = rows[posting]
            if every or allowed[row] != 0:
                if sums[row] == 0:
                    touched[count] = row
                    count += 1
                sums[row] += weight * impacts[posting]

    size = 0
    for index in range(count):
        row = touched[index]
        score = sums[row]
        sums[row] = 0
        if size < len(best_rows):
            # Sift up: a parent that is better than the newcomer moves down.
            hole = size
            size += 1
            while hole > 0:
                parent = (hole - 1) >> 1
                if best_scores[parent] < score or (best_scores[parent] == score and best_rows[parent] > row):
                    break
                best_scores[hole], best_rows[hole] = best_scores[parent], best_rows[parent]
                hole = parent
            best_scores[hole], best_rows[hole] = score, row
        elif score > best_scores[0] or (score == best_scores[0] and row < best_rows[0]):
            _sift_down(best_rows, best_scores, size, row, score)

    for last in range(size - 1, 0, -1):
        row, score = best_rows[last], best_scores[last]
        best_rows[last], best_scores[last] = best_rows[0], best_scores[0]
        _sift_down(best_rows, best_scores, last, row, score)
    return size


@njit(nogil=True)  # compiled with, and inlined into, its caller
def _sift_down(best_rows: NDArray[np.int32], best_scores: NDArray[np.float32], size: int, row: Any, score: Any) -> None:
    """Puts a row in the root's place and moves it down below every worse one."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            best_scores[other] < best_scores[child]
            or (best_scores[other] == best_scores[child] and best_rows[other] > best_rows[child])
        ):
            child = other
        if best_scores[child] > score or (best_scores[child] == score and best_rows[child] < row):
            break
        best_scores[hole], best_rows[hole] = best_scores[child], best_rows[child]
        hole = child
    best_scores[hole], best_rows[hole] = score, row
