"""Which passages say the same: SimHash signatures computed at ingest, compared when a request has its candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

SHINGLE = 3  # tokens
# Of 64; unrelated texts differ in 32 ± 4. In the example handbook an announcement and its poster differ in 4 and 12,
# pieces of one timetable in 15 to 29, a rule and the edition that replaces it in 19.
FEW_BITS = 14
AT_ONCE = 1 << 20  # shingles whose bits are counted together: 64 MB


def signatures(token_ids: NDArray[np.int32], offsets: NDArray[np.int64], at_once: int = AT_ONCE) -> NDArray[np.uint64]:
    """`[passages] uint64`: 64-bit SimHash over the set of runs of three tokens, a shorter passage being one run.

    A set, because the rows of a table repeat the names of its columns: counted each time, these runs outweigh the
    values, and two pieces of a table with different rows look the same.
    Charikar, "Similarity estimation techniques from rounding algorithms" (STOC 2002). `token_ids` are all passages'
    ids end to end, `offsets` `[passages + 1]` where each begins; `at_once` shingles are counted together.
    """
    result = np.zeros(len(offsets) - 1, np.uint64)
    shingles = np.maximum(np.diff(offsets) - SHINGLE + 1, 1)
    ends = np.cumsum(shingles)
    first = 0
    while first < len(result):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + at_once, side="right")), first + 1)
        result[first:last] = _signatures(token_ids, offsets[first : last + 1], shingles[first:last])
        first = last
    return result


def repeats(
    hashes: NDArray[np.uint64],
    marks: NDArray[np.uint64],
    vectors: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    similarity: float,
) -> tuple[int, ...]:
    """For each passage the index of the first one that it repeats; its own index when it repeats none.

    What it repeats is itself no repetition, so whoever keeps only those keeps something close to every passage.
    `hashes` `[passages, 2] uint64` are content hashes, `marks` signatures; `vectors` returns rows, L2-normalised, for
    those passages that need comparing, which in most requests are none.

    Near means a cosine of at least `similarity` *and* at most 14 differing bits: a high cosine alone takes paraphrases
    and translations for repetitions. From 1 on only equal hashes count, above 1 nothing does.
    """
    count = len(marks)
    if similarity > 1 or count == 0:
        return tuple(range(count))
    high, low = hashes[:, 0], hashes[:, 1]
    same = (high[:, None] == high) & (low[:, None] == low)
    if similarity < 1:
        near = (np.bitwise_count(marks[:, None] ^ marks) <= FEW_BITS) & ~same
        involved = np.flatnonzero(near.any(axis=1))
        if len(involved):
            compared = vectors(involved)
            close = (compared @ compared.T >= similarity) & near[np.ix_(involved, involved)]
            same[np.ix_(involved, involved)] |= close
    first: list[int] = same.argmax(axis=1).tolist()
    for passage in range(count):
        if first[first[passage]] != first[passage]:  # it repeats a repetition: look for an original, itself at last
            repeated = same[passage].nonzero()[0].tolist()
            first[passage] = next(other for other in repeated if other == passage or first[other] == other)
    return tuple(first)


def _signatures(
    token_ids: NDArray[np.int32], offsets: NDArray[np.int64], shingles: NDArray[np.int64]
) -> NDArray[np.uint64]:
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(shingles)[:-1]])
    passage = np.repeat(np.arange(len(shingles)), shingles)
    at = offsets[passage] + np.arange(len(passage)) - begins[passage]
    padded = np.append(token_ids[offsets[0] : offsets[-1]], np.int32(-1)).astype(np.uint64)
    mixed = np.zeros(len(passage), np.uint64)
    for step in range(SHINGLE):
        position = at + step
        inside = position < offsets[passage + 1]
        token = padded[np.where(inside, position - offsets[0], -1)]
        mixed = _mix(mixed + token + np.uint64(0x9E3779B97F4A7C15))
    mixed, distinct = _distinct(mixed, passage, len(shingles))
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(distinct)[:-1]])
    result = np.zeros(len(shingles), np.uint64)
    for bit in range(64):
        ones = np.add.reduceat((mixed >> np.uint64(bit)) & np.uint64(1), begins)
        result |= (2 * ones > distinct.astype(np.uint64)).astype(np.uint64) << np.uint64(bit)
    return result


def _distinct(
    values: NDArray[np.uint64], passage: NDArray[np.int64], passages: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Each passage's values once, passage by passage, and how many each has."""
    order = np.lexsort((values, passage))
    values, passage = values[order], passage[order]
    first = np.ones(len(values), np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (passage[1:] != passage[:-1])
    return values[first], np.bincount(passage[first], minlength=passages).astype(np.int64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); overflow is meant."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
