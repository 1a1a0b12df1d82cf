"""The loops of BM25, compiled by numba; imported by the first search only. Both let go of the interpreter lock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

import numpy as np
from numba import njit, types  # pyright: ignore[reportUnknownVariableType]  # numba's types are partial
from numpy.typing import NDArray

DENSE_SHARE = 8  # from an eighth as many postings as passages on, a pass over all sums is cheaper than a list of rows


class FindTerms(Protocol):
    """The compiled `find_terms`."""

    def __call__(
        self,
        sought: NDArray[np.uint8],
        sought_offsets: NDArray[np.int64],
        terms: NDArray[np.uint8],
        term_offsets: NDArray[np.int64],
        offsets: NDArray[np.int64],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> int: ...


class SearchPostings(Protocol):
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


@dataclass(frozen=True, slots=True)
class Kernel:
    """Both loops, compiled."""

    find_terms: FindTerms
    search_postings: SearchPostings


@cache
def kernel() -> Kernel:
    """Compiles for the signatures in use: seconds the first time, under one from numba's cache afterwards."""

    def flat(*kinds: Any) -> tuple[Any, ...]:
        return tuple(types.Array(kind, 1, "C") for kind in kinds)

    finding = types.int64(*flat(types.uint8, types.int64, types.uint8, *[types.int64] * 4))
    searching = types.int64(
        *flat(types.int64, types.int64, types.float32, types.int32, types.float32),
        *flat(types.uint8, types.float32, types.int32, types.int32, types.float32),
    )
    return Kernel(_compiled(finding, find_terms), _compiled(searching, search_postings))


def _compiled(signature: Any, function: Any) -> Any:
    compile_ = cast("Any", njit)
    try:
        return compile_([signature], nogil=True, cache=True)(function)
    except RuntimeError:  # no folder in which numba could keep its cache: compile at every start
        return compile_([signature], nogil=True)(function)


def find_terms(
    sought: NDArray[np.uint8],
    sought_offsets: NDArray[np.int64],
    terms: NDArray[np.uint8],
    term_offsets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:
    """Binary search for each sought term, bytes end to end like the sorted `terms`.

    Writes where its postings start and end, 0 and 0 where it is not among the terms; returns how many are.
    """
    found = 0
    for index in range(len(sought_offsets) - 1):
        start, end = sought_offsets[index], sought_offsets[index + 1]
        low, high = 0, len(term_offsets) - 1
        starts[index] = ends[index] = 0
        while low < high:
            middle = (low + high) >> 1
            order = _compared(sought, start, end, terms, term_offsets[middle], term_offsets[middle + 1])
            if order == 0:
                starts[index], ends[index] = offsets[middle], offsets[middle + 1]
                found += 1
                break
            if order > 0:
                low = middle + 1
            else:
                high = middle
    return found


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
    """Adds up what each term contributes and keeps the best; returns how many of `best_rows` are filled.

    Contributions are positive, so a sum of zero means that a row was not touched. A query of rare words keeps a list
    of the rows it touched (zeros are never looked at: selecting among 100,000 of them costs 5 ms); one of frequent
    words touches so many that a pass over all sums is cheaper. Either way all sums are zero again at the end. An empty
    `allowed` allows every row; `touched` has one place more than there are rows.
    """
    postings = 0
    for term in range(len(starts)):
        postings += ends[term] - starts[term]
    every = len(allowed) == 0
    size = 0
    # One comparison that nearly always fails: asking first whether the sum is zero is guessed wrong half of the time,
    # which costs 400 µs at 100,000 passages.
    least = np.float32(0)
    if postings * DENSE_SHARE >= len(sums):
        for term in range(len(starts)):
            weight = weights[term]
            for posting in range(starts[term], ends[term]):
                sums[rows[posting]] += weight * impacts[posting]
        for row in range(len(sums)):
            score = sums[row]
            sums[row] = 0
            if score > least and (every or allowed[row] != 0):
                size = _offer(best_rows, best_scores, size, row, score)
                least = best_scores[0] if size == len(best_rows) else least
    else:
        count = 0
        for term in range(len(starts)):
            weight = weights[term]
            for posting in range(starts[term], ends[term]):
                row = rows[posting]
                # Written always and kept when new: a branch here would be guessed wrong half of the time.
                touched[count] = row
                count += sums[row] == 0
                sums[row] += weight * impacts[posting]
        for index in range(count):
            row = touched[index]
            score = sums[row]
            sums[row] = 0
            if score >= least and (every or allowed[row] != 0):
                size = _offer(best_rows, best_scores, size, row, score)
                least = best_scores[0] if size == len(best_rows) else least

    for last in range(size - 1, 0, -1):
        row, score = best_rows[last], best_scores[last]
        best_rows[last], best_scores[last] = best_rows[0], best_scores[0]
        _sift_down(best_rows, best_scores, last, row, score)
    return size


@njit(nogil=True)  # compiled with, and inlined into, its callers, like those below
def _compared(sought: Any, start: int, end: int, terms: Any, term_start: int, term_end: int) -> int:
    """Below, equal to or above zero, as the sought bytes are to the term's."""
    shared = min(end - start, term_end - term_start)
    for offset in range(shared):
        difference = np.int64(sought[start + offset]) - np.int64(terms[term_start + offset])  # bytes would wrap
        if difference != 0:
            return int(difference)
    return (end - start) - (term_end - term_start)


@njit(nogil=True)
def _offer(best_rows: Any, best_scores: Any, size: int, row: Any, score: Any) -> int:
    """Takes a row into a heap whose root is the worst kept, if it deserves a place; returns the heap's size."""
    if size == len(best_rows):
        if score > best_scores[0] or (score == best_scores[0] and row < best_rows[0]):
            _sift_down(best_rows, best_scores, size, row, score)
        return size
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        if best_scores[parent] < score or (best_scores[parent] == score and best_rows[parent] > row):
            break
        best_scores[hole], best_rows[hole] = best_scores[parent], best_rows[parent]
        hole = parent
    best_scores[hole], best_rows[hole] = score, row
    return size + 1


@njit(nogil=True)
def _sift_down(best_rows: Any, best_scores: Any, size: int, row: Any, score: Any) -> None:
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
