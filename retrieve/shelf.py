"""Opened generations as one request sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.passages import Degraded, Neighbours, Passage
from retrieve.duplicates import repeats
from retrieve.generation import Generation
from retrieve.segment import Segment

Kind = TypeVar("Kind", bound=np.generic)
ROW_BITS = 40
ROW_MASK = (1 << ROW_BITS) - 1


def key_of(place: int, row: int) -> int:
    """The key of a row of the segment at `place`."""
    return place << ROW_BITS | row


@dataclass(frozen=True, slots=True)
class GenerationShelf:
    """Implements Shelf over generations of one embedder, side by side; none at all is an empty shelf.

    `segments` are those of all of them. A key is a segment's place, then 40 bits of row, so on a shelf of one segment a
    key is its row. `degraded` tells which generations are not the current ones, and why.
    """

    generations: tuple[Generation, ...]
    unpublished: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    segments: tuple[Segment, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Puts the segments side by side."""
        every = tuple(segment for generation in self.generations for segment in generation.segments)
        object.__setattr__(self, "segments", every)

    @property
    def generation(self) -> str:
        """Names every generation searched, as `handbook@7+laws@3`; 0 is a collection with nothing published yet."""
        names = [generation.name for generation in self.generations]
        return "+".join([*names, *(f"{collection}@0" for collection in self.unpublished)])

    @property
    def tokenizer(self) -> str:
        """The tokenizer's fingerprint; none where generations differ, so that nobody takes the ids for its own."""
        found = {generation.manifest.tokenizer for generation in self.generations}
        return found.pop() if len(found) == 1 else ""

    def passages(self, keys: Sequence[int]) -> tuple[Passage, ...]:
        """Implements Shelf."""
        return tuple(segment.table.passage(row) for segment, row in map(self._place, keys))

    def content_hashes(self, keys: Sequence[int]) -> tuple[str, ...]:
        """Implements Shelf."""
        return tuple(segment.table.content_hash(row) for segment, row in map(self._place, keys))

    def tokens(self, keys: Sequence[int]) -> tuple[int, ...]:
        """Implements Shelf."""
        if not keys:
            return ()
        counts: list[int] = self._gather(keys, lambda segment, rows: segment.token_counts[rows]).tolist()
        return tuple(counts)

    def token_ids(self, keys: Sequence[int]) -> tuple[memoryview, ...]:
        """Implements Shelf."""
        found: list[memoryview] = []
        for segment, row in map(self._place, keys):
            offsets = segment.token_offsets
            found.append(segment.tokens[offsets[row] : offsets[row + 1]].data)
        return tuple(found)

    def near_duplicates(self, keys: Sequence[int], similarity: float) -> tuple[int, ...]:
        """Implements Shelf; see `retrieve.duplicates.repeats`."""
        if not keys:
            return ()
        hashes = self._gather(keys, lambda segment, rows: segment.hashes[rows])
        marks = self._gather(keys, lambda segment, rows: segment.signatures[rows])

        def vectors(chosen: NDArray[np.int64]) -> NDArray[np.float32]:
            indices: list[int] = chosen.tolist()
            return self._gather([keys[index] for index in indices], lambda segment, rows: segment.vectors[rows])

        return repeats(hashes, marks, vectors, similarity)

    def neighbours(self, keys: Sequence[int]) -> tuple[Neighbours, ...]:
        """Implements Shelf. A document's passages follow one another, and live or die together."""
        found: list[Neighbours] = []
        for key in keys:
            segment, row = self._place(key)
            table = segment.table
            document = table.document_id(row)
            found.append(
                Neighbours(
                    key - 1 if row > 0 and table.document_id(row - 1) == document else None,
                    key + 1 if row + 1 < segment.rows and table.document_id(row + 1) == document else None,
                )
            )
        return tuple(found)

    def _gather(
        self, keys: Sequence[int], read: Callable[[Segment, NDArray[np.int64]], NDArray[Kind]]
    ) -> NDArray[Kind]:
        """What `read` returns for rows of each segment, in the order of the keys."""
        wanted = np.array(keys, np.int64)
        rows, places = wanted & ROW_MASK, wanted >> ROW_BITS
        sizes = np.array([segment.rows for segment in self.segments], np.int64)
        if len(wanted) and not (places.min() >= 0 and places.max() < len(sizes) and (rows < sizes[places]).all()):
            raise KeyError(next(key for key in keys if not self._holds(key)))
        if len(self.segments) == 1:
            return read(self.segments[0], rows)
        used: list[int] = np.unique(places).tolist()
        parts = [(places == place).nonzero()[0] for place in used]
        read_in = [read(self.segments[place], rows[part]) for place, part in zip(used, parts, strict=True)]
        together = np.concatenate(read_in)
        together[np.concatenate(parts)] = together.copy()
        return together

    def _place(self, key: int) -> tuple[Segment, int]:
        if not self._holds(key):
            raise KeyError(key)
        return self.segments[key >> ROW_BITS], key & ROW_MASK

    def _holds(self, key: int) -> bool:
        place = key >> ROW_BITS
        return 0 <= place < len(self.segments) and key & ROW_MASK < self.segments[place].rows
