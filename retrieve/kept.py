"""What is kept of a retrieval: keys, scores and hits as bytes; passages stay on the shelf that the keys belong to.

A candidate takes some 30 bytes. As objects it would take ten times that, and the garbage collector would have to walk
over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from pipeline.passages import Candidate, Hit, Leg

HEAD = Struct("<II")  # how many candidates, how many hits
CANDIDATE = Struct("<qdB")  # key, score, how many hits
HIT = Struct("<BId")  # leg, rank, score
LEGS = (Leg.LEXICAL, Leg.DENSE)  # a leg is written as its place here


def written(items: Sequence[Candidate]) -> bytes:
    """The bytes that `read` makes the very same candidates of."""
    hits = [hit for item in items for hit in item.hits]
    parts = [HEAD.pack(len(items), len(hits))]
    parts += (CANDIDATE.pack(item.key, item.score, len(item.hits)) for item in items)
    parts += (HIT.pack(LEGS.index(hit.leg), hit.rank, hit.score) for hit in hits)
    return b"".join(parts)


def whole(content: bytes) -> bool:
    """Whether it is as long as it says that it is."""
    if len(content) < HEAD.size:
        return False
    candidates, hits = HEAD.unpack_from(content)
    length: int = HEAD.size + candidates * CANDIDATE.size + hits * HIT.size
    return len(content) == length


def read(content: bytes, rows: Sequence[int], row_bits: int) -> tuple[Candidate, ...]:
    """The candidates, for a shelf of generations of so many rows each.

    Raises ValueError for what `written` did not write, and for keys that such a shelf does not have.
    """
    if not whole(content):
        raise ValueError("these bytes are not a whole retrieval")
    candidates, _ = HEAD.unpack_from(content)
    middle = HEAD.size + candidates * CANDIDATE.size
    of_leg = dict(enumerate(LEGS))
    hits = [Hit(of_leg[leg], rank, score) for leg, rank, score in HIT.iter_unpack(content[middle:]) if leg in of_leg]
    found: list[Candidate] = []
    at, mask = 0, (1 << row_bits) - 1
    for key, score, count in CANDIDATE.iter_unpack(content[HEAD.size : middle]):
        place = key >> row_bits
        if not 0 <= place < len(rows) or key & mask >= rows[place]:
            raise ValueError(f"there is no key {key} on this shelf")
        found.append(Candidate(key, score, tuple(hits[at : at + count])))
        at += count
    if at != len(hits):
        raise ValueError("hits and candidates do not belong together")
    return tuple(found)
