"""What is kept of a retrieval: keys, scores and hits as bytes; passages stay on the shelf that the keys belong to.

A candidate takes some 30 bytes. As objects it would take ten times that, and the garbage collector would have to walk
over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import Struct, pack, unpack_from

from pipeline.passages import Candidate, Hit, Leg

HEAD = Struct("<II")  # how many candidates, how many hits
LEGS = (Leg.LEXICAL, Leg.DENSE)  # a leg is written as its place here
PLACES = {leg: place for place, leg in enumerate(LEGS)}
OF_CANDIDATE, OF_HIT = 17, 13  # bytes


def written(items: Sequence[Candidate]) -> bytes:
    """The bytes that `read` makes the very same candidates of."""
    hits = [hit for item in items for hit in item.hits]
    return HEAD.pack(len(items), len(hits)) + pack(
        _columns(len(items), len(hits)),
        *[item.key for item in items],
        *[item.score for item in items],
        *[len(item.hits) for item in items],
        *[PLACES[hit.leg] for hit in hits],
        *[hit.rank for hit in hits],
        *[hit.score for hit in hits],
    )


def whole(content: bytes) -> bool:
    """Whether it is as long as it says that it is."""
    if len(content) < HEAD.size:
        return False
    items, hits = _counts(content)
    return len(content) == HEAD.size + items * OF_CANDIDATE + hits * OF_HIT


def read(content: bytes, rows: Sequence[int], row_bits: int) -> tuple[Candidate, ...]:
    """The candidates, for a shelf of segments of so many rows each.

    Raises ValueError for what `written` did not write, and for keys that such a shelf does not have.
    """
    if not whole(content):
        raise ValueError("these bytes are not a whole retrieval")
    items, hits = _counts(content)
    values = unpack_from(_columns(items, hits), content, HEAD.size)
    keys, scores, counts = (values[at * items : (at + 1) * items] for at in range(3))
    legs, ranks, hit_scores = (values[3 * items + at * hits : 3 * items + (at + 1) * hits] for at in range(3))
    mask = (1 << row_bits) - 1
    for key in keys:
        if not 0 <= key >> row_bits < len(rows) or key & mask >= rows[key >> row_bits]:
            raise ValueError(f"there is no key {key} on this shelf")
    if sum(counts) != hits or (hits and max(legs) >= len(LEGS)):
        raise ValueError("hits and candidates do not belong together")
    found = list(map(Hit, map(LEGS.__getitem__, legs), ranks, hit_scores))
    shares = [tuple(found[begin:end]) for begin, end in pairwise(accumulate(counts, initial=0))]
    return tuple(map(Candidate, keys, scores, shares))


def _columns(items: int, hits: int) -> str:
    """Of each candidate its key, score, and how many hits; of each hit its leg, rank and score."""
    return f"<{items}q{items}d{items}B{hits}B{hits}I{hits}d"


def _counts(content: bytes) -> tuple[int, int]:
    items, hits = HEAD.unpack_from(content)
    return int(items), int(hits)
